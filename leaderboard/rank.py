"""From cases to standings: one for each entry, profile and device class, with its rank.

A standing shows the newest source of its entry; older sources stay in the entry's history.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from types import MappingProxyType
from typing import Literal

from leaderboard.load import BarOf, Case
from selectivbench.stats import Mean, mean, mean_of_means
from selectivbench.record import Entry
from selectivbench.thresholds import Bar, bar_for

OVERALL = ("selective_copy-v1", "noisy_gaps-v1", "distractors-v1", "gap_extrapolation-v1")
TRAINING: Mapping[str, str] = MappingProxyType({"gap_extrapolation-v1": "noisy_gaps-v1"})
"""Tasks that evaluate another task's training: their seeds are not independent of its seeds."""
SEEDS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"smoke": (1,), "lite": (1, 2, 3), "paper": (1, 2, 3, 4)}
)
"""The fixed seeds of each profile; only they count, so that nobody picks the lucky ones."""

Division = Literal["mixer", "oversize", "model"]
Verified = Literal["verified", "partly verified", "self-reported"]
Key = tuple[str, str]
"""(task id, variant)"""


@dataclass(frozen=True)
class Cell:
    """One task variant of one standing: a case for each seed, of one budget."""

    task: str
    variant: str
    cases: tuple[Case, ...]
    wanted: tuple[int, ...]
    bar: Bar | None

    @property
    def scores(self) -> tuple[float, ...]:
        """Of the fixed seeds that have one."""
        return tuple(c.record.score for c in self._counted() if c.record.score is not None)

    @property
    def mean(self) -> Mean | None:
        """Of the scores that exist; None without any."""
        return mean(self.scores) if self.scores else None

    @property
    def complete(self) -> bool:
        """Whether every fixed seed has a score."""
        return len(self.scores) == len(self.wanted)

    @property
    def verdict(self) -> str:
        """pass, fail, ran (nothing failed, but no bar is set), incomplete, or another status."""
        statuses = [c.record.status for c in self._counted()]
        other = [s for s in statuses if s not in ("pass", "fail")]
        if other:
            return other[0]
        if len(statuses) < len(self.wanted):
            return "incomplete"
        if self.bar is not None and self.mean is not None:
            return "pass" if self.mean.value >= self.bar.bar else "fail"
        return "ran" if set(statuses) == {"pass"} else "fail"

    def _counted(self) -> list[Case]:
        return [c for c in self.cases if c.record.identity.seed in self.wanted]


@dataclass(frozen=True)
class Standing:
    """One row of the index."""

    entry: Entry
    profile: str
    device: str
    source: str
    cells: Mapping[Key, Cell]
    overall: Mean | None
    rank: int | None = None

    @property
    def cases(self) -> tuple[Case, ...]:
        return tuple(case for cell in self.cells.values() for case in cell.cases)

    @property
    def division(self) -> Division:
        """Whole networks and oversize mixers are ranked apart."""
        if self.entry.kind == "model":
            return "model"
        return "oversize" if any(c.record.oversize for c in self.cases) else "mixer"

    @property
    def verified(self) -> Verified:
        marks = {c.record.verified for c in self.cases}
        if marks == {True}:
            return "verified"
        return "partly verified" if True in marks else "self-reported"

    @property
    def isolation(self) -> str:
        return ", ".join(sorted({c.record.isolation for c in self.cases}))

    @property
    def parameters(self) -> int | None:
        return max((c.record.parameters for c in self.cases if c.record.parameters), default=None)

    @property
    def state_size(self) -> int | None:
        sizes = [c.record.state_size for c in self.cases if c.record.state_size is not None]
        return max(sizes, default=None)

    @property
    def date(self) -> str:
        """Day of the newest record."""
        return max(c.moment for c in self.cases)[:10]

    @property
    def group(self) -> tuple[str, str, Division]:
        """Standings are ranked within one profile, device class and division."""
        return self.profile, self.device, self.division

    def seconds(self, name: str) -> float | None:
        """Mean over cases of one measured time; None where no case has it."""
        found = [c.record.seconds[name] for c in self.cases if name in c.record.seconds]
        return mean(found).value if found else None

    def speed(self, name: str) -> float | None:
        """Relative to the yardstick of the same run: ``reference_step`` over ``step``."""
        both = [
            c.record.seconds[f"reference_{name}"] / c.record.seconds[name]
            for c in self.cases
            if c.record.seconds.get(name) and f"reference_{name}" in c.record.seconds
        ]
        return mean(both).value if both else None


def standings(cases: Iterable[Case], bars: BarOf = bar_for) -> tuple[Standing, ...]:
    """Every standing with its rank, best first within its group."""
    groups: dict[tuple[str, str, str], list[Case]] = defaultdict(list)
    for case in cases:
        who = case.record.identity
        groups[who.entry, who.profile, who.device_class].append(case)
    found = [_standing(key, group, bars) for key, group in groups.items()]
    ranked = _ranked(found)
    return tuple(sorted(ranked, key=_order))


def current(cases: Sequence[Case]) -> str:
    """The source that is shown: that of the newest record."""
    newest = max(cases, key=lambda c: (c.moment, c.record.identity.source_sha256))
    return newest.record.identity.source_sha256


def _standing(key: tuple[str, str, str], cases: Sequence[Case], bars: BarOf) -> Standing:
    _, profile, device = key
    source = current(cases)
    mine = [c for c in cases if c.record.identity.source_sha256 == source]
    by_key: dict[Key, list[Case]] = defaultdict(list)
    for case in mine:
        by_key[case.record.identity.task, case.record.identity.variant].append(case)
    cells = {k: _cell(k, by_key[k], profile, bars) for k in sorted(by_key)}
    newest = max(mine, key=lambda c: (c.moment, c.path.stem))
    return Standing(newest.record.entry, profile, device, source, cells, _overall(cells))


def _cell(key: Key, cases: Sequence[Case], profile: str, bars: BarOf) -> Cell:
    """The newest case of each seed, all of one budget: cut trainings never mix with full ones."""
    budgets: dict[str, dict[int, Case]] = defaultdict(dict)
    for case in sorted(cases, key=lambda c: (c.record.verified, c.moment, c.path.stem)):
        budgets[case.record.identity.budget_digest][case.record.identity.seed] = case
    seeds = max(budgets.values(), key=lambda s: (len(s), max(c.moment for c in s.values())))
    chosen = tuple(seeds[seed] for seed in sorted(seeds))
    wanted = SEEDS.get(profile, tuple(sorted(seeds)))
    return Cell(*key, chosen, wanted, bars(key[0], profile, key[1]))


def _overall(cells: Mapping[Key, Cell]) -> Mean | None:
    """Mean over the four tasks; with one of them missing or incomplete there is none."""
    trainings: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for task in OVERALL:
        cell = _main(cells, task)
        if cell is None or not cell.complete or not cell.scores:
            return None
        trainings[TRAINING.get(task, task)].append(cell.scores)
    parts = [mean([fmean(s) for s in zip(*scores, strict=True)]) for scores in trainings.values()]
    return mean_of_means(parts, [len(scores) for scores in trainings.values()])


def _main(cells: Mapping[Key, Cell], task: str) -> Cell | None:
    """The task's ``base`` variant, or the only one it has."""
    mine = [cell for (name, _), cell in cells.items() if name == task]
    base = [cell for cell in mine if cell.variant == "base"]
    return next(iter(base or mine), None)


def _ranked(found: Sequence[Standing]) -> list[Standing]:
    lows: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for standing in found:
        if standing.overall is not None:
            lows[standing.group].append(standing.overall.low)
    for values in lows.values():
        values.sort()
    return [replace(s, rank=_rank(s, lows[s.group])) for s in found]


def _rank(standing: Standing, lows: Sequence[float]) -> int | None:
    """1 + the number of entries whose whole interval lies above this one's."""
    if standing.overall is None:
        return None
    return 1 + len(lows) - bisect_right(lows, standing.overall.high)


_PROFILES = ("paper", "lite", "smoke")
_DIVISIONS = ("mixer", "oversize", "model")


def _order(s: Standing) -> tuple[object, ...]:
    profile = _PROFILES.index(s.profile) if s.profile in _PROFILES else len(_PROFILES)
    value = s.overall.value if s.overall else 0.0
    return (
        *(profile, s.profile, s.device, _DIVISIONS.index(s.division)),
        *(s.rank is None, s.rank or 0, -value, s.entry.id),
    )
