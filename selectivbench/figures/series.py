"""From records to the numbers of a figure: series over an axis, a panel for each task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from types import MappingProxyType
from typing import TypeAlias

from selectivbench.errors import UsageError, explain
from selectivbench.record import Record
from selectivbench.tasks import TASKS

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
    records = _trainings(_distinct(records))
    told = any(p.accuracy is not None for r in records for p in r.curve)
    values: Values = {}
    for r in records:
        for p in r.curve:
            value = p.accuracy if told else p.loss
            if value is not None:
                values.setdefault((_task(r), r.identity.entry, p.step), []).append(value)
    levels = _flat_levels(records, values) if told else {}
    y = f"validation {_metric(records)}" if told else "training loss"
    return _plot(records, "Learning curves", "step", y, values, levels, discrete=False)


def difficulty(records: Sequence[Record]) -> Plot:
    """Accuracy against the number in the name of the variant: the ambiguity, the length."""
    values, levels = _numbered(
        (r, r.identity.variant, r.accuracy, r.floor, r.ceiling) for r in _distinct(records)
    )
    remedy = "variants with numbers, such as memorization:amb8 and memorization:amb12"
    _want_two(values, "variants", remedy)
    numbered = [r.identity.variant for r in records if r.identity.variant[-1:].isdecimal()]
    x = "ambiguity" if all(name.startswith("amb") for name in numbered) else "size"
    return _plot(records, "Accuracy against difficulty", x, _metric(records), values, levels)


def extrapolation(records: Sequence[Record]) -> Plot:
    """Accuracy against the number in the names of the test splits: the gap, the length."""
    values, levels = _numbered(
        (r, e.split, e.accuracy, e.floor, e.ceiling)
        for r in _distinct(records)
        for e in r.evaluations
    )
    _want_two(values, "test splits", "records of gap_extrapolation or induction")
    gaps = {task.startswith("gap") for task, _, _ in values}
    x = "length or gap" if len(gaps) > 1 else ("blanks in each gap" if gaps == {True} else "length")
    title = "Accuracy beyond what was trained on"
    return _plot(records, title, x, _metric(records), values, levels, log=True)


def rates(records: Sequence[Record]) -> Plot:
    """Last validation figure against learning rate; a test set is no place to choose a rate."""
    values: Values = {}
    for r in records:
        known = [p.accuracy for p in r.curve if p.accuracy is not None]
        rate = r.budget.get("budget", {}).get("lr")
        if known and rate:
            values.setdefault((_task(r), r.identity.entry, float(rate)), []).append(known[-1])
    _want_two(values, "learning rates", "records of one entry at several rates")
    y = f"last validation {_metric(records)}"
    return _plot(records, "Choice of the learning rate", "learning rate", y, values, {}, log=True)


@dataclass(frozen=True)
class Dot:
    """One entry: its cost, its mean score over tasks and seeds, and the spread of its seeds."""

    name: str
    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True)
class Scatter:
    """Score against cost. left_out: entries that lack a task that others have."""

    title: str
    x: str
    y: str
    dots: tuple[Dot, ...]
    left_out: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return ("entry", self.x, self.y, "least", "greatest")

    @property
    def rows(self) -> tuple[tuple[object, ...], ...]:
        return tuple((d.name, d.x, d.y, d.low, d.high) for d in self.dots)

    @property
    def front(self) -> tuple[Dot, ...]:
        """The entries that no other beats at the same cost or less, cheapest first."""
        best: list[Dot] = []
        for dot in sorted(self.dots, key=lambda d: (d.x, -d.y)):
            if not best or dot.y > best[-1].y:
                best.append(dot)
        return tuple(best)


@dataclass(frozen=True)
class Cost:
    """What an entry pays, as read from a record."""

    title: str
    of: Callable[[Record], float | None]


COSTS: Mapping[str, Cost] = MappingProxyType(
    {
        "state": Cost("state size (floats a layer)", lambda r: r.state_size),
        "parameters": Cost("parameters", lambda r: r.parameters),
        "seconds": Cost("seconds of a training", lambda r: r.seconds.get("fit")),
    }
)


def pareto(records: Sequence[Record], cost: Cost) -> Scatter:
    """Mean score over the tasks given against a cost, for entries that have every one of them."""
    records = [r for r in _distinct(records) if r.score is not None]
    tasks = {_task(r) for r in records}
    dots, left_out = [], []
    for entry in dict.fromkeys(r.identity.entry for r in records):
        own = [r for r in records if r.identity.entry == entry]
        costs = [value for r in own if (value := cost.of(r))]
        if {_task(r) for r in own} < tasks or not costs:
            left_out.append(entry)
            continue
        scores = _by_seed(own)
        dots.append(Dot(entry, fmean(costs), fmean(scores), min(scores), max(scores)))
    if not dots:
        allowed = "an entry with a score and a cost on every task that is given"
        raise UsageError(explain("records", "none to compare", allowed, "see --cost and the tasks"))
    title = f"Mean score of {len(tasks)} task{'s' * (len(tasks) > 1)}{_where(records)}"
    return Scatter(title, cost.title, "mean score", tuple(dots), tuple(left_out))


def _by_seed(records: Sequence[Record]) -> list[float]:
    """Mean score over the tasks, of each seed."""
    seeds: dict[int, list[float]] = {}
    for r in records:
        if r.score is not None:
            seeds.setdefault(r.identity.seed, []).append(r.score)
    return [fmean(scores) for scores in seeds.values()]


def _trainings(records: Sequence[Record]) -> list[Record]:
    """Without the records whose training is another task's, where that is there: one curve, once."""
    borrowed = {task.id: task.trains_on for task in TASKS if task.trains_on != task.id}
    there = {(r.identity.task, r.identity.entry, r.identity.seed) for r in records}

    def shown_elsewhere(r: Record) -> bool:
        who = r.identity
        return (borrowed.get(who.task), who.entry, who.seed) in there

    return [r for r in records if not shown_elsewhere(r)]


def _order(title: str) -> tuple[int, str, int]:
    """Panels in the order of the registry, amb8 before amb12."""
    name, _, variant = title.partition(", ")
    names = [task.name.replace("_", " ") for task in TASKS]
    number = variant[len(variant.rstrip("0123456789")) :]
    return names.index(name) if name in names else len(names), name, int(number or 0)


def _distinct(records: Sequence[Record]) -> Sequence[Record]:
    """The records, of which no two are of the same case: their mean would be of nothing."""
    seen: dict[tuple[object, ...], Record] = {}
    for r in records:
        who = r.identity
        case = (who.entry, who.task, who.variant, who.profile, who.seed, who.device_class)
        if case in seen:
            got = f"two of {who.entry} on {_task(r)}, seed {who.seed}"
            raise UsageError(explain("records", got, "one of each case", "give one run's records"))
        seen[case] = r
    return records


def _task(record: Record) -> str:
    """Panel title: the task, with its variant where it has one to speak of."""
    who = record.identity
    name = who.task.removesuffix("-v1").replace("_", " ")
    plain = who.variant == "base"
    return name if plain else f"{name}, {who.variant}"


def _metric(records: Sequence[Record]) -> str:
    return " or ".join(dict.fromkeys(r.metric.replace("_kl", " KL") for r in records))


def _where(records: Sequence[Record]) -> str:
    places = dict.fromkeys(f"{r.identity.profile}, {r.identity.device_class}" for r in records)
    return f" ({'; '.join(places)})"


def _flat_levels(records: Sequence[Record], values: Values) -> Values:
    """Floor and ceiling of each panel, drawn from its first step to its last."""
    levels: Values = {}
    for r in records:
        steps = [x for panel, _, x in values if panel == _task(r)]
        for name, value in (("floor", r.floor), ("ceiling", r.ceiling)):
            if value is not None and steps:
                for x in (min(steps), max(steps)):
                    levels.setdefault((_task(r), name, x), []).append(value)
    return levels


def _numbered(
    rows: Iterable[tuple[Record, str, float | None, float | None, float | None]],
) -> tuple[Values, Values]:
    """Figures and levels by the number at the end of a name; names without one are left out."""
    values: Values = {}
    levels: Values = {}
    for r, name, figure, floor, ceiling in rows:
        digits = name[len(name.rstrip("0123456789")) :]
        task = r.identity.task.removesuffix("-v1").replace("_", " ")
        if not digits or figure is None or floor is None or ceiling is None:
            continue
        values.setdefault((task, r.identity.entry, float(digits)), []).append(figure)
        for level, value in (("floor", floor), ("ceiling", ceiling)):
            levels.setdefault((task, level, float(digits)), []).append(value)
    return values, levels


def _want_two(values: Values, what: str, remedy: str) -> None:
    if len({x for _, _, x in values}) < 2:
        raise UsageError(
            explain(what, len({x for _, _, x in values}), "2 or more", f"give {remedy}")
        )


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
        for name in sorted({panel for panel, _, _ in values}, key=_order)
    ]
    return Plot(title + _where(records), x, y, tuple(parts), log, discrete)


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
