"""From records to score against cost: a dot for each entry, and which of them nothing beats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from types import MappingProxyType

from selectivbench.errors import UsageError, explain
from selectivbench.figures.naming import distinct, task_of, where_of
from selectivbench.record import Record


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
    """Mean score over the tasks given against a cost, for entries that have every one of them.

    Of one profile and one device, those with the most records: scores of other sizes are others.
    """
    records = _of_one_place([r for r in distinct(records) if r.score is not None])
    tasks = {task_of(r) for r in records}
    dots, left_out = [], []
    for entry in dict.fromkeys(r.identity.entry for r in records):
        own = [r for r in records if r.identity.entry == entry]
        costs = [value for r in own if (value := cost.of(r))]
        if {task_of(r) for r in own} < tasks or not costs:
            left_out.append(entry)
            continue
        scores = _by_seed(own)
        dots.append(Dot(entry, fmean(costs), fmean(scores), min(scores), max(scores)))
    if not dots:
        allowed = "an entry with a score and a cost on every task that is given"
        raise UsageError(explain("records", "none to compare", allowed, "see --cost and the tasks"))
    title = f"Mean score of {len(tasks)} task{'s' * (len(tasks) > 1)}{where_of(records)}"
    return Scatter(title, cost.title, "mean score", tuple(dots), tuple(left_out))


def _of_one_place(records: Sequence[Record]) -> list[Record]:
    places = Counter((r.identity.profile, r.identity.device_class) for r in records)
    most = max(places, key=lambda place: places[place], default=None)
    return [r for r in records if (r.identity.profile, r.identity.device_class) == most]


def _by_seed(records: Sequence[Record]) -> list[float]:
    """Mean score over the tasks, of each seed that has as many tasks as any."""
    seeds: dict[int, list[float]] = {}
    for r in records:
        if r.score is not None:
            seeds.setdefault(r.identity.seed, []).append(r.score)
    most = max(map(len, seeds.values()))
    return [fmean(scores) for scores in seeds.values() if len(scores) == most]
