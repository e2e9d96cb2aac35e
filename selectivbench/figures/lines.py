"""Series drawn: lines in panels, and score against cost with its front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from selectivbench.figures.costs import Dot, Scatter
from selectivbench.figures.page import (
    SOFT,
    Drawn,
    Look,
    blank,
    finish,
    handles_of,
    mark,
    panels,
    styled,
)
from selectivbench.figures.series import Panel, Plot, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEIGHT, ALONE = 1.9, 2.6
"""Inches of a panel, and of one that has the figure to itself."""
PLACES: tuple[tuple[int, int, Literal["left", "right", "center"]], ...] = (
    *((6, 6, "left"), (-6, 6, "right"), (6, -6, "left"), (-6, -6, "right")),
    *((6, 0, "left"), (-6, 0, "right"), (0, 9, "center"), (0, -10, "center")),
)
"""Where a name may stand beside its dot, in points, the best first."""


def draw_lines(plot: Plot, look: Look) -> Drawn:
    """A panel for each task, the same marks for an entry in all of them, one legend."""
    names = list(
        dict.fromkeys(s.name for panel in plot.panels for s in panel.series if not s.level)
    )
    with styled(look):
        height = HEIGHT if len(plot.panels) > 1 else ALONE
        figure, grid = panels(look, len(plot.panels), 2.1, height)
        axes = [ax for row in grid for ax in row]
        for ax, panel in zip(axes, plot.panels, strict=True):
            _panel(ax, panel, plot, names)
        for row in grid:
            row[0].set_ylabel(plot.y)
        for ax in axes[-len(grid[0]) :]:
            ax.set_xlabel(plot.x)
        found = handles_of(axes)
        ordered = [*names, *(name for name in found if name not in names)]
        finish(figure, plot.title, {name: found[name] for name in ordered}, look)
    return Drawn(figure, plot.columns, plot.rows)


def _panel(ax: Axes, panel: Panel, plot: Plot, names: Sequence[str]) -> None:
    for series in panel.series:
        if series.level:
            _level(ax, series)
        else:
            _entry(ax, series, names.index(series.name), plot.discrete)
    ax.set_title(panel.title)
    if plot.log:
        ax.set_xscale("log")
    if plot.discrete:
        xs = sorted({p.x for s in panel.series for p in s.points})
        ax.set_xticks(xs, [f"{x:g}" for x in xs])
        ax.minorticks_off()


def _entry(ax: Axes, series: Series, place: int, discrete: bool) -> None:
    xs, ys = [p.x for p in series.points], [p.y for p in series.points]
    style = mark(place)
    low, high = [p.low for p in series.points], [p.high for p in series.points]
    if discrete:
        spread = [[y - a for y, a in zip(ys, low, strict=True)]]
        spread.append([b - y for y, b in zip(ys, high, strict=True)])
        ax.errorbar(xs, ys, yerr=spread, label=series.name, elinewidth=0.8, **style)
    else:
        every = max(1, len(xs) // 6)
        ax.plot(xs, ys, label=series.name, markevery=every, **style)
        ax.fill_between(xs, low, high, color=style["color"], alpha=0.15, linewidth=0)


def _level(ax: Axes, series: Series) -> None:
    dash: Any = (0, (1, 1.2)) if series.name == "floor" else (0, (8, 2))
    xs, ys = [p.x for p in series.points], [p.y for p in series.points]
    ax.plot(xs, ys, color=SOFT, linestyle=dash, linewidth=0.9, label=series.name, zorder=1)


def draw_scatter(scatter: Scatter, look: Look) -> Drawn:
    """Every entry named; the line joins those that nothing beats at their cost."""
    with styled(look):
        figure = blank(look.width, min(4.0, 0.62 * look.width))
        ax = figure.subplots()
        ax.set_xscale("log")
        front = scatter.front
        ends = [*(d.x for d in front), max(d.x for d in scatter.dots)]
        best = [*(d.y for d in front), front[-1].y]
        ax.step(ends, best, where="post", color=SOFT, lw=0.9, zorder=1, label="best for its cost")
        for place, dot in enumerate(scatter.dots):
            spread = [[dot.y - dot.low], [dot.high - dot.y]]
            ax.errorbar([dot.x], [dot.y], yerr=spread, elinewidth=0.8, **mark(place))
        ax.set_xlabel(scatter.x)
        ax.set_ylabel(scatter.y)
        ax.margins(0.12, 0.1)
        finish(figure, _titled(scatter), handles_of([ax]), look)
        _name(ax, scatter.dots)
    return Drawn(figure, scatter.columns, scatter.rows)


def _titled(scatter: Scatter) -> str:
    missing = ", ".join(scatter.left_out)
    return f"{scatter.title}; not on every task: {missing}" if missing else scatter.title


def _name(ax: Axes, dots: Sequence[Dot]) -> None:
    """Each name at the first place beside its dot where it touches no other name and no dot; one
    that fits nowhere is left out, and stands in the CSV."""
    ax.figure.canvas.draw()
    room = ax.get_window_extent()
    points = [ax.transData.transform((d.x, d.y)) for d in dots]
    taken: list[Any] = []
    for dot in dots:
        for dx, dy, side in PLACES:
            label = ax.annotate(
                dot.name,
                (dot.x, dot.y),
                (dx, dy),
                textcoords="offset points",
                ha=side,
                va="center",
                fontsize="small",
            )
            box = label.get_window_extent()
            free = room.x0 <= box.x0 and box.x1 <= room.x1 and not box.count_contains(points)
            if free and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            label.remove()
