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

from leaderboard.audits import Question, worst
from leaderboard.load import BarOf, Case
from selectivbench.audited import Audited, Gap
from selectivbench.record import Entry, Finding
from selectivbench.stats import Mean, mean, mean_of_means
from selectivbench.thresholds import Bar, bar_for

OVERALL = ("selective_copy-v1", "noisy_gaps-v2", "distractors-v1", "gap_extrapolation-v2")
TRAINING: Mapping[str, str] = MappingProxyType({"gap_extrapolation-v2": "noisy_gaps-v2"})
"""Tasks that evaluate another task's training: their seeds are not independent of its seeds."""
VARIANT: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("lite", "noisy_gaps-v2"): "long",
        ("lite", "gap_extrapolation-v2"): "long",
        ("lite", "distractors-v1"): "dense",
    }
)
"""The variant that counts, by profile and task, where it is not ``base``."""
SEEDS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"smoke": (1,), "lite": (1, 2, 3), "paper": (1, 2, 3, 4)}
)
"""The fixed seeds of each profile; only they count, so that nobody picks the lucky ones."""

Division = Literal["mixer", "oversize", "model"]
Verified = Literal["verified", "partly verified", "self-reported", "marked"]
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
    gap: Gap | None = None
    """What an audit found for just this file and budget; None where there was none."""

    @property
    def scores(self) -> tuple[float, ...]:
        """Of the fixed seeds that have a valid one."""
        valid = (c.record for c in self._counted() if c.record.status in ("pass", "fail"))
        return tuple(record.score for record in valid if record.score is not None)

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
    def weighed(self) -> tuple[Case, ...]:
        """What costs are told of: cases of the tasks that overall is made of, so that nobody pays for
        more or larger results; all cases where there is none of those."""
        shared = (self.cells[key].cases for key in overall_keys(self.profile) if key in self.cells)
        return tuple(case for cases in shared for case in cases) or self.cases

    @property
    def division(self) -> Division:
        """Whole networks and oversize mixers are ranked apart."""
        if self.entry.kind == "model":
            return "model"
        return "oversize" if any(c.record.oversize for c in self.cases) else "mixer"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What validity checks found, the newest of each check."""
        ordered = sorted(self.cases, key=lambda c: (c.moment, c.path.stem))
        by_check = {f.check: f for c in ordered for f in c.record.validity}
        return tuple(by_check[check] for check in sorted(by_check))

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What audits found, task by task."""
        return tuple(cell.gap for cell in self.cells.values() if cell.gap is not None)

    @property
    def marks(self) -> tuple[str, ...]:
        """Why its scores cannot be believed: checks that do not hold, gaps of an audit."""
        broken = {f"{f}." for c in self.cases for f in c.record.validity if not f.ok}
        gaps = [f"the audit marks {gap}." for gap in self.gaps if gap.marked]
        return (*sorted(broken), *gaps)

    @property
    def verified(self) -> Verified:
        """verified: every record scored by the trusted workflow, every task audited, no mark."""
        if self.marks:
            return "marked"
        marks = {c.record.verified for c in self.cases}
        if marks == {True} and len(self.gaps) == len(self.cells):
            return "verified"
        return "partly verified" if True in marks else "self-reported"

    @property
    def isolation(self) -> str:
        return ", ".join(sorted({c.record.isolation for c in self.cases}))

    @property
    def parameters(self) -> int | None:
        return max((c.record.parameters for c in self.weighed if c.record.parameters), default=None)

    @property
    def state_size(self) -> int | None:
        sizes = [c.record.state_size for c in self.weighed if c.record.state_size is not None]
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
        found = [c.record.seconds[name] for c in self.weighed if name in c.record.seconds]
        return mean(found).value if found else None

    @property
    def utilisation(self) -> float | None:
        """Mean over cases of how busy their device was, 0 to 1; None where it was not seen."""
        found = [c.record.utilisation for c in self.cases if c.record.utilisation is not None]
        return mean(found).value if found else None

    def speed(self, name: str) -> float | None:
        """Relative to the yardstick of the same run: ``reference_step`` over ``step``."""
        both = [
            c.record.seconds[f"reference_{name}"] / c.record.seconds[name]
            for c in self.weighed
            if c.record.seconds.get(name) and f"reference_{name}" in c.record.seconds
        ]
        return mean(both).value if both else None


def overall_keys(profile: str) -> tuple[Key, ...]:
    """The tasks that overall is a mean of, with their variants in a profile."""
    return tuple((task, VARIANT.get((profile, task), "base")) for task in OVERALL)


def standings(
    cases: Iterable[Case], bars: BarOf = bar_for, audits: Iterable[Audited] = ()
) -> tuple[Standing, ...]:
    """Every standing with its rank, best first within its group; a marked one has none."""
    gaps = worst(audits)
    groups: dict[tuple[str, str, str], list[Case]] = defaultdict(list)
    for case in cases:
        who = case.record.identity
        groups[who.entry, who.profile, who.device_class].append(case)
    found = [_standing(key, group, bars, gaps) for key, group in groups.items()]
    ranked = _ranked(found)
    return tuple(sorted(ranked, key=_order))


def current(cases: Sequence[Case]) -> str:
    """The source that is shown: that of the newest record."""
    newest = max(cases, key=lambda c: (c.moment, c.record.identity.source_sha256))
    return newest.record.identity.source_sha256


def _standing(
    key: tuple[str, str, str], cases: Sequence[Case], bars: BarOf, gaps: Mapping[Question, Gap]
) -> Standing:
    _, profile, device = key
    source = current(cases)
    mine = [c for c in cases if c.record.identity.source_sha256 == source]
    by_key: dict[Key, list[Case]] = defaultdict(list)
    for case in mine:
        by_key[case.record.identity.task, case.record.identity.variant].append(case)
    found = {k: _cell(k, by_key[k], profile, bars) for k in sorted(by_key)}
    cells = {k: replace(cell, gap=gaps.get(_question(cell))) for k, cell in found.items()}
    newest = max(mine, key=lambda c: (c.moment, c.path.stem))
    return Standing(newest.record.entry, profile, device, source, cells, _overall(cells, profile))


def _cell(key: Key, cases: Sequence[Case], profile: str, bars: BarOf) -> Cell:
    """The newest case of each seed, all of one budget: cut trainings never mix with full ones."""
    budgets: dict[str, dict[int, Case]] = defaultdict(dict)
    for case in sorted(cases, key=lambda c: (c.record.verified, c.moment, c.path.stem)):
        budgets[case.record.identity.budget_digest][case.record.identity.seed] = case
    fixed = SEEDS.get(profile)

    def weight(seeds: Mapping[int, Case]) -> tuple[int, str]:
        """Seeds that count, so that no cut training with many others hides a full one."""
        counted = len(seeds) if fixed is None else len(seeds.keys() & set(fixed))
        return counted, max(case.moment for case in seeds.values())

    seeds = max(budgets.values(), key=weight)
    chosen = tuple(seeds[seed] for seed in sorted(seeds))
    wanted = tuple(sorted(seeds)) if fixed is None else fixed
    return Cell(*key, chosen, wanted, bars(key[0], profile, key[1]))


def _question(cell: Cell) -> Question:
    """What an audit would have to be about to speak of a cell: one budget, so any case tells it."""
    who = cell.cases[0].record.identity
    about = (who.entry, who.source_sha256, who.task, who.variant, who.profile, who.device_class)
    return (*about, who.budget_digest)


def _overall(cells: Mapping[Key, Cell], profile: str) -> Mean | None:
    """Mean over the four tasks; with one of them missing or incomplete there is none."""
    trainings: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for task, variant in overall_keys(profile):
        cell = cells.get((task, variant))
        if cell is None or not cell.complete or not cell.scores:
            return None
        trainings[TRAINING.get(task, task)].append(cell.scores)
    parts = [mean([fmean(s) for s in zip(*scores, strict=True)]) for scores in trainings.values()]
    return mean_of_means(parts, [len(scores) for scores in trainings.values()])


def _ranked(found: Sequence[Standing]) -> list[Standing]:
    lows: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for standing in found:
        if standing.overall is not None and not standing.marks:
            lows[standing.group].append(standing.overall.low)
    for values in lows.values():
        values.sort()
    return [replace(s, rank=_rank(s, lows[s.group])) for s in found]


def _rank(standing: Standing, lows: Sequence[float]) -> int | None:
    """1 + the number of entries whose whole interval lies above this one's."""
    if standing.overall is None or standing.marks:
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
