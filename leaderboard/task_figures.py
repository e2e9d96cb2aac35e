"""The charts of a task's page: every entry on it, between floor, windows and ceiling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leaderboard.charts import COLOURS, Axes, Line, Panel, Strip, panels, strips
from leaderboard.figures import SPLITS, Chart, ambiguity_rows, by_variant, means, split_rows
from leaderboard.rank import Cell, Standing
from leaderboard.view import key_order, level
from selectivbench.record import with_variant

Rows = Sequence[tuple[Standing, Cell]]
Windows = Mapping[str, Sequence[float]]
"""Accuracy of the best predictors that know the last 1, 2, … symbols, by variant."""
MOST = 40
"""Entries that the seeds chart has room for."""


def of_task(name: str, profile: str, rows: Rows, windows: Windows) -> list[Chart]:
    """Difficulty curves where the task has them, then every entry's seeds for each variant."""
    stem = f"charts/{name}-{profile}"
    found: list[Chart] = []
    ordered = sorted(rows, key=lambda row: key_order((name, row[1].variant)))
    groups = by_variant(ordered, lambda row: row[1].variant)
    for variant, mine in groups.items():
        for kind in SPLITS:
            table = [(s.entry.name, *row[1:]) for s, c in mine for row in split_rows(c, kind)]
            axes = Axes(kind.axis, "accuracy", log=True)
            found += _difficulty(table, kind.id, axes, stem, {}, variant)
    table = [(s.entry.name, *row[1:]) for s, c in rows for row in ambiguity_rows(c)]
    found += _difficulty(table, "ambiguity", Axes("ambiguity", "accuracy"), stem, windows)
    for variant, mine in groups.items():
        found += _seeds(variant, mine, stem, windows.get(variant, ()))
    return found


def _difficulty(
    table: Sequence[tuple[Any, ...]],
    kind: str,
    axes: Axes,
    stem: str,
    windows: Windows,
    variant: str = "base",
) -> list[Chart]:
    """Every entry's accuracy against one number, if there are two of them."""
    if len({row[1] for row in table}) < 2:
        return []
    points: dict[str, list[tuple[float, float]]] = {}
    for entry, x, value, *_ in table:
        points.setdefault(entry, []).append((float(x), value))
    lines = [Line(entry, tuple(sorted(found))) for entry, found in points.items()]
    lines.sort(key=lambda line: (-sum(y for _, y in line.points) / len(line.points), line.name))
    levels = [*_window_lines(windows), *_level_lines(table)]
    shown = [*lines[:COLOURS], *levels, *lines[COLOURS:]]
    label = with_variant(f"Accuracy of every entry against {axes.x}", variant, ", ")
    note = "the best six are named; a hover or the CSV names all"
    return [
        Chart(
            with_variant(f"{kind}-{stem.rpartition('-')[2]}", variant, "-"),
            with_variant(f"Accuracy against {axes.x}", variant, ", "),
            note,
            with_variant(f"{stem}-{kind}", variant, "-"),
            panels(label, [Panel("", tuple(shown))], axes),
            ("entry", axes.x.replace(" ", "_"), "accuracy", "floor", "ceiling"),
            tuple(table),
        )
    ]


def _level_lines(table: Sequence[tuple[Any, ...]]) -> list[Line]:
    """Floor and ceiling at each x, means over the entries."""
    xs = sorted({row[1] for row in table})
    at = {x: means([row[3:5] for row in table if row[1] == x]) for x in xs}
    pairs = (("floor", 0), ("ceiling", 1))
    return [Line(n, tuple((float(x), at[x][i]) for x in xs), level=True) for n, i in pairs]


def _window_lines(windows: Windows) -> list[Line]:
    """The window of k symbols over the ambiguity in the variants' names; k = 1 is the floor's."""
    known = sorted(
        (int(name[3:]), values)
        for name, values in windows.items()
        if name.startswith("amb") and name[3:].isdecimal()
    )
    deep = min((len(values) for _, values in known), default=0)
    return [
        Line(f"last {k + 1} symbols", tuple((float(x), v[k]) for x, v in known), level=True)
        for k in range(1, deep)
    ]


def _seeds(variant: str, rows: Rows, stem: str, windows: Sequence[float]) -> list[Chart]:
    """Every seed of every entry, best first; the windows are lines across."""
    found = [strip for s, cell in rows if (strip := _strip(s, cell)) is not None]
    found.sort(key=lambda strip: (-strip.mean, strip.name))
    if not found:
        return []
    refs = tuple((f"{k}", value) for k, value in enumerate(windows, start=1) if k > 1)
    note = "numbered lines: what knowing the last 2, 3, … symbols reaches" if refs else ""
    levels = tuple((r.name, s, v, r.floor, r.ceiling, r.bar) for r in found for s, v in r.seeds)
    metric = rows[0][1].cases[0].record.metric
    what = metric.replace("_", " ").capitalize().replace(" kl", " KL")
    label = with_variant(f"{what} of each seed of every entry", variant, " ")
    return [
        Chart(
            f"seeds-{stem.rpartition('-')[2]}-{variant}",
            with_variant(f"{what} of each seed", variant, " "),
            note,
            f"{stem}-{variant}-seeds",
            strips(label, found[:MOST], refs),
            ("entry", "seed", metric, "floor", "ceiling", "bar"),
            levels,
        )
    ]


def _strip(standing: Standing, cell: Cell) -> Strip | None:
    seeds = [(c.record.identity.seed, c.record.accuracy) for c in cell.cases]
    known = tuple((seed, value) for seed, value in seeds if value is not None)
    if not known:
        return None
    low, high = level(cell, "floor"), level(cell, "ceiling")
    bar = None
    if cell.bar is not None and low is not None and high is not None:
        bar = low + cell.bar.bar * (high - low)
    middle = sum(value for _, value in known) / len(known)
    return Strip(standing.entry.name[:24], known, middle, low, high, bar)
