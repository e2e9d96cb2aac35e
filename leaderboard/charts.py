"""The kinds of chart: scatter with a front, lines in panels, seeds between floor and ceiling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

from leaderboard.svg import CHAR, Scale, Svg, number, scale

COLOURS = 6
"""Series that get a colour, a dash and a label; more are drawn in grey."""
WIDTH, HEIGHT = 560.0, 340.0
TOP, BOTTOM, LEFT = 30.0, 44.0, 48.0


@dataclass(frozen=True)
class Dot:
    """One entry of a scatter: half is of the interval of y."""

    name: str
    x: float
    y: float
    half: float | None = None


@dataclass(frozen=True)
class Line:
    """One series; a level is a reference line without a colour of its own."""

    name: str
    points: tuple[tuple[float, float], ...]
    level: bool = False


@dataclass(frozen=True)
class Panel:
    """Lines that share axes; refs are named levels drawn across."""

    title: str
    lines: tuple[Line, ...]
    refs: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Strip:
    """The seeds of one task between its floor and ceiling, in the unit of its metric."""

    name: str
    seeds: tuple[tuple[int, float], ...]
    mean: float
    floor: float | None
    ceiling: float | None
    bar: float | None


@dataclass(frozen=True)
class Axes:
    """Titles of both axes, and whether x is logarithmic."""

    x: str
    y: str
    log: bool = False


def scatter(label: str, dots: Sequence[Dot], axes: Axes, front: bool = False) -> Svg:
    """Dots with intervals and as many names as fit; front: the best y for each x or less."""
    svg = Svg(WIDTH, HEIGHT, label)
    x = scale([d.x for d in dots], LEFT, WIDTH - 16, axes.log)
    ends = [d.y + s * (d.half or 0) for d in dots for s in (-1, 1)]
    y = scale(ends, HEIGHT - BOTTOM, TOP)
    _frame(svg, x, y, axes)
    if front:
        svg.path(_stairs(pareto(dots), x, y), "front", "Pareto front")
    for dot in dots:
        if dot.half:
            svg.line(x(dot.x), y(dot.y - dot.half), x(dot.x), y(dot.y + dot.half), "err s0")
    for dot in dots:
        told = f"{dot.name}: {axes.x} {number(dot.x)}, {axes.y} {dot.y:.3f}"
        svg.marker(x(dot.x), y(dot.y), 0, told)
    _names(svg, [(d.name, x(d.x), y(d.y)) for d in sorted(dots, key=lambda d: (-d.y, d.name))])
    return svg


def pareto(dots: Sequence[Dot]) -> list[Dot]:
    """The dots that no other beats in y at the same x or less, from left to right."""
    best: list[Dot] = []
    for dot in sorted(dots, key=lambda d: (d.x, -d.y)):
        if not best or dot.y > best[-1].y:
            best.append(dot)
    return best


def panels(label: str, parts: Sequence[Panel], axes: Axes, across: int = 3) -> Svg:
    """Small multiples with common axes; a single panel is drawn large, with its lines named."""
    if len(parts) == 1:
        return _large(label, parts[0], axes)
    across = min(across, len(parts))
    width, height = 190.0, 130.0
    rows = -(-len(parts) // across)
    svg = Svg(LEFT + across * width, rows * (height + 28) + 24, label)
    xs, ys = _ranges(parts)
    for place, part in enumerate(parts):
        row, column = divmod(place, across)
        left, top = LEFT + column * width, row * (height + 28) + 18
        x = scale(xs, left, left + width - 14, axes.log)
        y = scale(ys, top + height - 14, top)
        last = place + across >= len(parts)
        _frame(svg, x, y, Axes(axes.x if last else "", "", axes.log), column == 0, most=3)
        svg.text(left, top - 5, part.title)
        _draw(svg, part, x, y)
    return svg


def _large(label: str, part: Panel, axes: Axes) -> Svg:
    svg = Svg(WIDTH, HEIGHT, label)
    xs, ys = _ranges([part])
    widest = max((len(line.name) for line in part.lines[:COLOURS]), default=0)
    x = scale(xs, LEFT, WIDTH - 16 - min(widest, 20) * CHAR, axes.log)
    y = scale(ys, HEIGHT - BOTTOM, TOP)
    _frame(svg, x, y, axes)
    _draw(svg, part, x, y)
    _spread(svg, [line for line in part.lines[:COLOURS] if not line.level], x, y)
    return svg


def strips(label: str, rows: Sequence[Strip], refs: Sequence[tuple[str, float]] = ()) -> Svg:
    """A row for each: a band from floor to ceiling, the bar across, a dot for each seed.

    refs are named levels drawn through all rows.
    """
    left = 24 + 1.12 * CHAR * max(len(row.name) for row in rows)
    svg = Svg(WIDTH, 26.0 * len(rows) + 58, label)
    x = scale([*_spans(rows), *(value for _, value in refs)], left, WIDTH - 20)
    bottom = 26.0 * len(rows) + 14
    for tick in x.ticks:
        svg.line(x(tick), 8, x(tick), bottom, "grid")
        svg.text(x(tick), bottom + 14, number(tick), "middle", "soft")
    for name, value in refs:
        svg.line(x(value), 12, x(value), bottom, "ref")
        svg.text(x(value), 9, name, "middle", "soft")
    for place, row in enumerate(rows):
        _strip(svg, row, x, 26.0 * place + 22, left)
    keys = "┃ bar   ¦ floor, ceiling   ○ seed   | mean"
    svg.text(WIDTH - 20, bottom + 34, keys, "end", "soft")
    return svg


def _spans(rows: Sequence[Strip]) -> list[float]:
    levels = [v for r in rows for v in (r.floor, r.ceiling, r.bar) if v is not None]
    return levels + [value for row in rows for _, value in row.seeds]


def _strip(svg: Svg, row: Strip, x: Scale, y: float, left: float) -> None:
    svg.text(left - 14, y + 4, row.name, "end")
    for level in (row.floor, row.ceiling):
        if level is not None:
            svg.line(x(level), y - 9, x(level), y + 9, "ref")
    if row.floor is not None and row.ceiling is not None:
        svg.line(x(row.floor), y, x(row.ceiling), y, "grid")
    if row.bar is not None:
        svg.line(x(row.bar), y - 9, x(row.bar), y + 9, "bar")
    for seed, value in row.seeds:
        svg.marker(x(value), y, 0, f"{row.name}, seed {seed}: {value:.3f}", 3.5)
    svg.line(x(row.mean), y - 6, x(row.mean), y + 6, "mid")


def _ranges(parts: Sequence[Panel]) -> tuple[list[float], list[float]]:
    points = [point for part in parts for line in part.lines for point in line.points]
    levels = [level for part in parts for _, level in part.refs]
    return [x for x, _ in points], [y for _, y in points] + levels


def _draw(svg: Svg, part: Panel, x: Scale, y: Scale) -> None:
    for name, level in part.refs:
        svg.path([(x.start, y(level)), (x.end, y(level))], "ref", f"{name} {level:.3f}")
        if svg.width == WIDTH:
            svg.text(x.start + 4, y(level) - 4, name, cls="soft")
    for place, line in reversed(list(enumerate(part.lines))):  # the named ones on top
        points = [(x(a), y(b)) for a, b in line.points]
        if line.level:
            svg.path(points, "ref", line.name)
            if svg.width == WIDTH:
                svg.text(points[0][0] + 4, points[0][1] - 4, line.name, cls="soft")
            continue
        series = min(place, COLOURS)
        small = svg.width != WIDTH
        svg.path(points, f"ln s{series} d{series}{' thin' if small else ''}", line.name)
        if series < COLOURS and len(points) <= 12 and not small:
            for (px, py), (a, b) in zip(points, line.points, strict=True):
                svg.marker(px, py, series, f"{line.name}: {number(a)}, {b:.3f}", 3)


def _frame(
    svg: Svg, x: Scale, y: Scale, axes: Axes, left: bool = True, most: int | None = None
) -> None:
    for tick in y.ticks[:: 1 if most is None else max(1, len(y.ticks) // most)]:
        svg.line(x.start, y(tick), x.end, y(tick), "grid")
        if left:
            svg.text(x.start - 6, y(tick) + 4, number(tick), "end", "soft")
    svg.line(x.start, y.start, x.end, y.start, "axis")
    for tick in _apart(x, x.ticks):
        svg.line(x(tick), y.start, x(tick), y.start + 4, "axis")
        svg.text(x(tick), y.start + 16, number(tick), "middle", "soft")
    if axes.x:
        svg.text((x.start + x.end) / 2, y.start + 32, axes.x, "middle", "soft")
    if axes.y:
        svg.text(4, 12, axes.y, cls="soft")


def _apart(x: Scale, values: Sequence[float], room: float = 38) -> list[float]:
    """The ticks whose labels do not touch."""
    kept: list[float] = []
    for value in values:
        if not kept or x(value) - x(kept[-1]) >= room:
            kept.append(value)
    return kept


def _stairs(front: Sequence[Dot], x: Scale, y: Scale) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = []
    for dot in front:
        if points:
            points.append((x(dot.x), points[-1][1]))
        points.append((x(dot.x), y(dot.y)))
    return [*points, (x.end, points[-1][1])]


def _names(svg: Svg, places: Sequence[tuple[str, float, float]]) -> None:
    """Best first, each beside its dot where nothing is; a name that fits nowhere is left out."""
    taken: set[tuple[int, int]] = {cell for _, x, y in places for cell in _cells(x - 4, y, 8)}
    for name, x, y in places:
        text = name[:24]
        wide = len(text) * CHAR
        for anchor, at, dx, dy in (
            ("start", 0, 8, 0),
            ("end", -wide, -8, 0),
            ("middle", -wide / 2, 0, -14),
            ("middle", -wide / 2, 0, 14),
        ):
            left = x + dx + at
            cells = _cells(left, y + dy, wide)
            if left > LEFT and left + wide < WIDTH and not cells & taken:
                svg.text(x + dx, y + dy + 4, text, anchor)
                taken |= cells
                break


def _cells(x: float, y: float, wide: float) -> set[tuple[int, int]]:
    """The 4 by 4 squares that a label covers."""
    rows = range(floor((y - 5) / 4), floor((y + 5) / 4) + 1)
    return {(column, row) for column in range(int(x / 4), int((x + wide) / 4) + 1) for row in rows}


def _spread(svg: Svg, lines: Sequence[Line], x: Scale, y: Scale) -> None:
    """Names at the ends of lines, pushed down until none touches the one above."""
    lowest = -1e9
    ends = [(y(line.points[-1][1]), place, line) for place, line in enumerate(lines)]
    for at, place, line in sorted(ends, key=lambda end: end[:2]):
        lowest = max(at, lowest + 13)
        svg.text(x(line.points[-1][0]) + 8, lowest + 4, line.name[:20], cls=f"t{place}")
