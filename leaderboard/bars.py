"""Small multiples of bars between 0 and 1, a bar for each bin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leaderboard.svg import CHAR, Scale, Svg

ACROSS, WIDTH, HEIGHT = 3, 190.0, 92.0
LEFT, ROW = 40.0, HEIGHT + 58.0
FEW = 30
"""A bar of fewer elements is pale: its height is mostly luck."""


@dataclass(frozen=True)
class Bars:
    """One panel: (bin, height in 0 to 1, elements) from left to right."""

    title: str
    axis: str
    bins: tuple[tuple[str, float, int], ...]


def bars(label: str, parts: Sequence[Bars]) -> Svg:
    """Panels of bars with one scale, from 0 to 1."""
    across = min(ACROSS, len(parts))
    svg = Svg(LEFT + across * WIDTH, -(-len(parts) // across) * ROW + 4, label)
    for place, part in enumerate(parts):
        row, column = divmod(place, across)
        left, top = LEFT + column * WIDTH, row * ROW + 20
        _panel(svg, part, left, Scale(0.0, 1.0, top + HEIGHT, top), first=column == 0)
    return svg


def _panel(svg: Svg, part: Bars, left: float, y: Scale, first: bool) -> None:
    wide = WIDTH - 16
    svg.text(left, y.end - 7, part.title[:26])
    for tick in (0.0, 0.5, 1.0):
        svg.line(left, y(tick), left + wide, y(tick), "axis" if tick == 0 else "grid")
        if first:
            svg.text(left - 6, y(tick) + 4, f"{tick:g}", "end", "soft")
    each = wide / max(1, len(part.bins))
    for place, (name, height, elements) in enumerate(part.bins):
        told = f"{part.title}, {part.axis} {name}: {height:.3f} of {elements}"
        x = left + place * each
        pale = " pale" if elements < FEW else ""
        svg.bar(x + 1.5, y(height), each - 3, y.start - y(height), f"col{pale}", told)
    for place in _apart([name for name, *_ in part.bins], each):
        svg.text(left + (place + 0.5) * each, y.start + 14, part.bins[place][0], "middle", "soft")
    svg.text(left + wide / 2, y.start + 29, part.axis[:28], "middle", "soft")


def _apart(names: Sequence[str], each: float) -> list[int]:
    """The bins whose names do not touch."""
    kept: list[int] = []
    for place, name in enumerate(names):
        last = kept[-1] if kept else -1
        room = (place - last) * each
        if last < 0 or room > (len(name) + len(names[last])) * CHAR / 2 + 4:
            kept.append(place)
    return kept
