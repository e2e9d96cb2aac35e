"""From records to the numbers of a figure: series over an axis, a panel for each task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeAlias

from selectivbench.errors import UsageError, explain
from selectivbench.figures.naming import (
    distinct,
    metric_of,
    panel_order,
    task_of,
    task_title,
    trainings,
    where_of,
)
from selectivbench.record import Record

Values: TypeAlias = dict[tuple[str, str, float], list[float]]
"""(panel, series, x) to a value for each seed."""


@dataclass(frozen=True)
class Point:
    """The mean of some seeds at ``x``, and the least and greatest of them."""

    x: float
    y: float
    low: float
    high: float
    seeds: int


@dataclass(frozen=True)
class Series:
    """Points from left to right; a level is a reference, such as the floor, and no entry."""

    name: str
    points: tuple[Point, ...]
    level: bool = False


@dataclass(frozen=True)
class Panel:
    """Series that share axes."""

    title: str
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Plot:
    """What a figure shows. log: whether x is logarithmic; discrete: x takes few values, all named."""

    title: str
    x: str
    y: str
    panels: tuple[Panel, ...]
    log: bool = False
    discrete: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        return ("panel", "series", self.x, self.y, "least", "greatest", "seeds")

    @property
    def rows(self) -> tuple[tuple[object, ...], ...]:
        return tuple(
            (panel.title, line.name, p.x, p.y, p.low, p.high, p.seeds)
            for panel in self.panels
            for line in panel.series
            for p in line.points
        )


def curve(records: Sequence[Record]) -> Plot:
    """Validation figure against step; the training loss where nothing was validated."""
    records = trainings(distinct(records))
    told = any(p.accuracy is not None for r in records for p in r.curve)
    values: Values = {}
    for r in records:
        for p in r.curve:
            value = p.accuracy if told else p.loss
            if value is not None:
                values.setdefault((task_of(r), r.identity.entry, p.step), []).append(value)
    levels = _flat_levels(records, values) if told else {}
    y = f"validation {metric_of(records)}" if told else "training loss"
    return _plot(records, "Learning curves", "step", y, values, levels, discrete=False)


def difficulty(records: Sequence[Record]) -> Plot:
    """Accuracy against the number in the name of the variant: the ambiguity, the length."""
    values, levels = _numbered(
        (r, r.identity.variant, r.accuracy, r.floor, r.ceiling) for r in distinct(records)
    )
    remedy = "variants with numbers, such as memorization:amb8 and memorization:amb12"
    values = _lines(values, "variants", remedy)
    numbered = [r.identity.variant for r in records if r.identity.variant[-1:].isdecimal()]
    x = "ambiguity" if all(name.startswith("amb") for name in numbered) else "size"
    return _plot(records, "Accuracy against difficulty", x, metric_of(records), values, levels)


def extrapolation(records: Sequence[Record]) -> Plot:
    """Accuracy against the number in the names of the test splits: the gap, the length."""
    values, levels = _numbered(
        (r, e.split, e.accuracy, e.floor, e.ceiling)
        for r in distinct(records)
        for e in r.evaluations
    )
    values = _lines(values, "test splits", "records of gap_extrapolation or induction")
    gaps = {task.startswith("gap") for task, _, _ in values}
    x = "length or gap" if len(gaps) > 1 else ("blanks in each gap" if gaps == {True} else "length")
    title = "Accuracy beyond what was trained on"
    return _plot(records, title, x, metric_of(records), values, levels, log=True)


def rates(records: Sequence[Record]) -> Plot:
    """Last validation figure against learning rate; a test set is no place to choose a rate."""
    values: Values = {}
    for r in records:
        known = [p.accuracy for p in r.curve if p.accuracy is not None]
        rate = r.budget.get("budget", {}).get("lr")
        if known and rate:
            values.setdefault((task_of(r), r.identity.entry, float(rate)), []).append(known[-1])
    values = _lines(values, "learning rates", "records of one entry at several rates")
    y = f"last validation {metric_of(records)}"
    return _plot(records, "Choice of the learning rate", "learning rate", y, values, {}, log=True)


def _flat_levels(records: Sequence[Record], values: Values) -> Values:
    """Floor and ceiling of each panel, drawn from its first step to its last."""
    levels: Values = {}
    for r in records:
        steps = [x for panel, _, x in values if panel == task_of(r)]
        for name, value in (("floor", r.floor), ("ceiling", r.ceiling)):
            if value is not None and steps:
                for x in (min(steps), max(steps)):
                    levels.setdefault((task_of(r), name, x), []).append(value)
    return levels


def _numbered(
    rows: Iterable[tuple[Record, str, float | None, float | None, float | None]],
) -> tuple[Values, Values]:
    """Figures and levels by the number at the end of a name; names without one are left out."""
    values: Values = {}
    levels: Values = {}
    for r, name, figure, floor, ceiling in rows:
        digits = name[len(name.rstrip("0123456789")) :]
        if not digits or figure is None or floor is None or ceiling is None:
            continue
        values.setdefault((task_title(r), r.identity.entry, float(digits)), []).append(figure)
        for level, value in (("floor", floor), ("ceiling", ceiling)):
            levels.setdefault((task_title(r), level, float(digits)), []).append(value)
    return values, levels


def _lines(values: Values, what: str, remedy: str) -> Values:
    """Those of panels with two points or more; a single one shows how nothing grows or falls."""
    places = {(panel, x) for panel, _, x in values}
    panels = [panel for panel, _ in places]
    kept = {at: found for at, found in values.items() if panels.count(at[0]) > 1}
    if not kept:
        most = max(map(panels.count, panels), default=0)
        raise UsageError(explain(what, most, "2 or more", f"give {remedy}"))
    return kept


def _plot(
    records: Sequence[Record],
    title: str,
    x: str,
    y: str,
    values: Values,
    levels: Values,
    *,
    log: bool = False,
    discrete: bool = True,
) -> Plot:
    if not values:
        raise UsageError(explain("records", f"{len(records)} without {y}", f"some with {y}"))
    parts = [
        Panel(name, (*_series(values, name, False), *_series(levels, name, True)))
        for name in sorted({panel for panel, _, _ in values}, key=panel_order)
    ]
    return Plot(title + where_of(records), x, y, tuple(parts), log, discrete)


def _series(values: Values, panel: str, level: bool) -> list[Series]:
    names = dict.fromkeys(name for p, name, _ in values if p == panel)
    return [
        Series(
            name,
            tuple(
                Point(x, fmean(found), min(found), max(found), len(found))
                for (p, n, x), found in sorted(values.items())
                if (p, n) == (panel, name)
            ),
            level,
        )
        for name in names
    ]
