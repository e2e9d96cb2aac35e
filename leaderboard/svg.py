"""Drawing on the server: scales, ticks and an SVG tree that escapes by construction."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, isclose, log10
from xml.etree import ElementTree as ET

CHAR = 6.8
"""Mean width of a character at the charts' font size, for placing labels."""
MINUS = "\u2212"

STYLE = """
svg{font:12px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;--bg:#fff;
--fg:#1c2024;--soft:#5a636d;--line:#e2e4e7;--c0:#1f5fa8;--c1:#b4530b;--c2:#0f7a5f;--c3:#8a3f97;--c4:#6b6f00;--c5:#a8325f}
@media (prefers-color-scheme:dark){svg{--fg:#e4e7ea;--soft:#a3acb5;--line:#2d3338;--bg:#14171a;
--c0:#7fb2ef;--c1:#f0a35e;--c2:#5fcfae;--c3:#d69be0;--c4:#cfd05a;--c5:#f08fb4}}
"""
"""Colours of a saved file; a page has the same names in its style sheet."""

SHAPES = """
svg text{fill:var(--fg)}svg .soft{fill:var(--soft)}svg .grid{stroke:var(--line);fill:none}
svg .axis{stroke:var(--soft);fill:none}svg .ref{stroke:var(--soft);fill:none;stroke-dasharray:4 3}
svg .bar{stroke:var(--fg);fill:none;stroke-width:2}
svg .ln{fill:none;stroke-width:1.75;stroke-linejoin:round}svg .thin{stroke-width:1.25}
svg .err{stroke-width:1;opacity:.55}svg .mid{stroke:var(--fg);stroke-width:1.5}
svg .col{fill:var(--c0)}svg .pale{opacity:.35}
svg .front{fill:none;stroke:var(--soft);stroke-width:1}
svg .s0{stroke:var(--c0)}svg .s1{stroke:var(--c1)}svg .s2{stroke:var(--c2)}svg .s3{stroke:var(--c3)}
svg .s4{stroke:var(--c4)}svg .s5{stroke:var(--c5)}
svg .s6{stroke:var(--soft);stroke-width:1;opacity:.6}
svg .t0{fill:var(--c0)}svg .t1{fill:var(--c1)}svg .t2{fill:var(--c2)}
svg .t3{fill:var(--c3)}svg .t4{fill:var(--c4)}svg .t5{fill:var(--c5)}
svg .p{fill:var(--bg);stroke-width:1.75}svg .d1{stroke-dasharray:6 3}svg .d2{stroke-dasharray:2 3}
svg .d3{stroke-dasharray:8 3 2 3}svg .d4{stroke-dasharray:4 2}svg .d5{stroke-dasharray:1 2}
"""
"""Shapes, the same on a page and in a file; series differ by dash and marker, not colour alone."""


@dataclass(frozen=True)
class Scale:
    """From a number to a place on the page."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = (log10(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        """Round numbers inside the scale."""
        return log_ticks(self.low, self.high) if self.log else ticks(self.low, self.high)


def scale(values: list[float], start: float, end: float, log: bool = False) -> Scale:
    """A scale with room around the values; it never has length zero."""
    low, high = min(values), max(values)
    if log:
        return Scale(low / 1.6, high * 1.6, start, end, log=True)
    room = (high - low) * 0.06 or max(abs(high) * 0.1, 0.5)
    return Scale(low - room, high + room, start, end)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten.

    >>> ticks(0, 1)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    rough = (high - low) / most
    power = 10 ** floor(log10(rough))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough * 0.999)
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [round(i * step, 10) for i in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, with 2 and 5 between them where there are few.

    >>> log_ticks(30, 4000)
    [50, 100, 200, 500, 1000, 2000]
    """
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    steps = (1, 2, 5) if log10(high / low) < 3 else (1,)
    every = [s * 10**p for p in powers for s in steps]
    inside = [v for v in every if low <= v <= high]
    return inside if len(inside) > 1 else [low * 1.6, high / 1.6]


def number(value: float) -> str:
    """A tick's label.

    >>> number(0.2), number(2000), number(-1)
    ('0.2', '2k', '−1')
    """
    if isclose(value, 0, abs_tol=1e-12):
        return "0"
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}".replace("-", MINUS)
    return f"{value:.3g}".replace("-", MINUS)


class Svg:
    """One drawing. Coordinates are rounded, so that the same numbers give the same bytes."""

    def __init__(self, width: float, height: float, label: str) -> None:
        self.width, self.height = width, height
        self.root = ET.Element(
            "svg",
            {
                "xmlns": "http://www.w3.org/2000/svg",
                "viewBox": f"0 0 {width:g} {height:g}",
                "width": f"{width:g}",
                "height": f"{height:g}",
                "role": "img",
                "aria-label": xml_text(label),
            },
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, cls: str) -> None:
        self._add("path", {"d": f"M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}", "class": cls})

    def path(self, points: list[tuple[float, float]], cls: str, title: str = "") -> None:
        d = "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points)
        self._add("path", {"d": d, "class": cls}, title)

    def marker(self, x: float, y: float, series: int, title: str = "", size: float = 4) -> None:
        """Circle, square, diamond, triangle …: one shape for each series."""
        self._add("path", {"d": _shape(x, y, series % 4, size), "class": f"p s{series}"}, title)

    def bar(self, x: float, y: float, wide: float, high: float, cls: str, title: str = "") -> None:
        at = {"x": _n(x), "y": _n(y), "width": _n(wide), "height": _n(high), "class": cls}
        self._add("rect", at, title)

    def text(self, x: float, y: float, text: str, anchor: str = "start", cls: str = "") -> None:
        at = {"x": _n(x), "y": _n(y)} | ({"text-anchor": anchor} if anchor != "start" else {})
        node = ET.SubElement(self.root, "text", at | ({"class": cls} if cls else {}))
        node.text = xml_text(text)

    def inline(self) -> str:
        """For a page that has the style sheet."""
        return ET.tostring(self.root, encoding="unicode")

    def alone(self) -> str:
        """A file of its own: colours and background in it."""
        text = self.inline()
        body = text.index(">") + 1  # an attribute's > is written as &gt;
        back = '<rect width="100%" height="100%" style="fill:var(--bg)"/>'
        return f"{text[:body]}<style>{STYLE}{SHAPES}</style>{back}{text[body:]}\n"

    def _add(self, tag: str, attributes: dict[str, str], title: str = "") -> None:
        node = ET.SubElement(self.root, tag, attributes)
        if title:
            ET.SubElement(node, "title").text = xml_text(title)


def xml_text(text: str) -> str:
    """Without the control characters that XML cannot hold in any form."""
    return "".join(
        c if c >= " " or c in "\t\n" else "\ufffd" for c in text if c not in "\ufffe\uffff"
    )


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _shape(x: float, y: float, kind: int, r: float) -> str:
    if kind == 0:
        return f"M{_n(x - r)} {_n(y)}a{r:g} {r:g} 0 1 0 {2 * r:g} 0a{r:g} {r:g} 0 1 0 {-2 * r:g} 0z"
    if kind == 1:
        s = r * 0.9
        return f"M{_n(x - s)} {_n(y - s)}h{2 * s:g}v{2 * s:g}h{-2 * s:g}z"
    if kind == 2:
        s = r * 1.25
        return f"M{_n(x)} {_n(y - s)}l{s:g} {s:g}l{-s:g} {s:g}l{-s:g} {-s:g}z"
    s = r * 1.15
    return f"M{_n(x)} {_n(y - s)}l{s:g} {2 * s * 0.87:g}h{-2 * s:g}z"
