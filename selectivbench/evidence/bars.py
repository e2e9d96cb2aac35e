"""Bars from runs: the midpoint between the worst selective and the best non-selective reference.

Where the two groups do not stand apart, no bar tells them apart: there it is a bar for learning at all,
three sigma below the worst selective reference, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, variance
from typing import NamedTuple

import numpy as np

from selectivbench.evidence.runs import Case, Runs, references

LEAST_RUNS = 20
LEAST_SIGMA = 0.005
"""Below this the spread of a few runs says nothing about the next one."""
LEAST_SEPARATION = 3.0
"""Sigmas between the groups from which on a bar in the middle tells them apart."""
LEARNING = 3.0
"""Sigmas below the worst selective reference where the groups cannot be told apart."""
PLACES = 3
"""Decimals of a bar and its sigma."""

Scores = Mapping[str, Mapping[int, float]]
"""Score by entry and seed."""


class Group(NamedTuple):
    """One entry and the mean of its scores."""

    entry: str
    mean: float


@dataclass(frozen=True)
class Derivation:
    """How a bar follows from its runs."""

    case: Case
    selective: Scores
    not_selective: Scores
    sigma: float

    @property
    def runs(self) -> int:
        """Reference runs behind sigma."""
        return sum(len(s) for group in (self.selective, self.not_selective) for s in group.values())

    @property
    def worst(self) -> Group:
        """The selective reference with the lowest mean."""
        return min(_means(self.selective), key=lambda group: group.mean)

    @property
    def best(self) -> Group:
        """The non-selective reference with the highest mean."""
        return max(_means(self.not_selective), key=lambda group: group.mean)

    @property
    def bar(self) -> float:
        """The midpoint, or the bar for learning at all."""
        middle = (self.worst.mean + self.best.mean) / 2
        learning = self.worst.mean - LEARNING * self.sigma
        return round(middle if self.separates else learning, PLACES)

    @property
    def separates(self) -> bool:
        """Whether the groups stand apart."""
        return self.separation >= LEAST_SEPARATION

    @property
    def separation(self) -> float:
        """The gap in standard deviations; below 0 where the groups overlap."""
        return (self.worst.mean - self.best.mean) / self.sigma

    @property
    def paired(self) -> float:
        """The separation when what a seed gives to all entries alike is taken out of sigma."""
        everyone = [*self.selective.values(), *self.not_selective.values()]
        return (self.worst.mean - self.best.mean) / max(LEAST_SIGMA, residual(everyone))

    @property
    def wrong(self) -> tuple[str, ...]:
        """Runs on the wrong side of a bar that separates: a single case would have misjudged them."""
        if not self.separates:
            return ()
        low = [
            f"{e} seed {s}"
            for e, runs in self.selective.items()
            for s, v in runs.items()
            if v < self.bar
        ]
        high = [
            f"{e} seed {s}"
            for e, runs in self.not_selective.items()
            for s, v in runs.items()
            if v >= self.bar
        ]
        return (*low, *high)


def derive(runs: Runs, case: Case) -> Derivation | None:
    """The bar of a case, or None where fewer than LEAST_RUNS reference runs have been committed.

    sigma is the standard deviation of a run around its entry's mean, pooled over these references (each
    with n runs counts with n - 1 degrees of freedom), and at least LEAST_SIGMA.
    """
    groups = references()
    contrast = groups["not_selective"].get(case.task, groups["not_selective"]["default"])
    scores = {entry: runs.scores(entry, case) for entry in (*groups["selective"], *contrast)}
    if sum(map(len, scores.values())) < LEAST_RUNS or not all(scores.values()):
        return None
    return Derivation(
        case,
        {entry: scores[entry] for entry in groups["selective"]},
        {entry: scores[entry] for entry in contrast},
        max(LEAST_SIGMA, round(pooled(list(scores.values())), PLACES)),
    )


def pooled(groups: list[Mapping[int, float]]) -> float:
    """Standard deviation within groups, over all of them.

    >>> pooled([{1: 0.0, 2: 2.0}, {1: 5.0, 2: 5.0}])
    1.0
    """
    several = [list(group.values()) for group in groups if len(group) > 1]
    freedom = sum(len(group) - 1 for group in several)
    squares = sum(variance(group) * (len(group) - 1) for group in several)
    return sqrt(squares / freedom)


def residual(groups: list[Mapping[int, float]]) -> float:
    """Standard deviation of what entry and seed together do not explain, over the shared seeds.

    >>> residual([{1: 0.1, 2: 0.3}, {1: 0.5, 2: 0.7}]) < 1e-9
    True
    """
    seeds = sorted(set.intersection(*(set(group) for group in groups)))
    if len(seeds) < 2:
        return 0.0
    table = np.array([[group[seed] for seed in seeds] for group in groups])
    rest = table - table.mean(1, keepdims=True) - table.mean(0, keepdims=True) + table.mean()
    freedom = (len(groups) - 1) * (len(seeds) - 1)
    return sqrt(float((rest**2).sum()) / freedom) if freedom else 0.0


def _means(scores: Scores) -> list[Group]:
    return [Group(entry, fmean(runs.values())) for entry, runs in scores.items()]
