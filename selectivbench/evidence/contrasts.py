"""Comparisons of entries over the same seeds: what a claim's figures are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from selectivbench.evidence.runs import Case, Runs
from selectivbench.record import Record, with_variant
from selectivbench.stats import Mean, mean

SOLVED = 0.9
"""Validation accuracy at which a selective-copy training counts as having got there."""

OfSeed = Mapping[int, float]


@dataclass(frozen=True)
class Figure:
    """One figure of a claim: a mean over seeds with its 95 % interval."""

    what: str
    value: Mean
    seeds: tuple[int, ...]


def scores(runs: Runs, entries: Iterable[str], case: Case) -> tuple[Figure, ...]:
    """The mean score of each entry that has runs of the case."""
    found = ((entry, runs.scores(entry, case)) for entry in entries)
    return tuple(figure(f"{entry}, {label(case)}", values) for entry, values in found if values)


def difference(
    runs: Runs, first: Sequence[str], second: Sequence[str], case: Case
) -> Figure | None:
    """Mean score of one group less that of another, by seed; None where no seed has both.

    A group's score is the mean over those of its entries that have every seed of the comparison.
    """
    seeds = _shared(runs, (*first, *second), case)
    groups = [_having(runs, group, case, seeds) for group in (first, second)]
    if not seeds or not all(groups):
        return None
    values = {
        seed: fmean(runs.scores(e, case)[seed] for e in groups[0])
        - fmean(runs.scores(e, case)[seed] for e in groups[1])
        for seed in seeds
    }
    return figure(f"{' + '.join(groups[0])} less {' + '.join(groups[1])}, {label(case)}", values)


def drop(runs: Runs, entry: str, easy: Case, hard: Case) -> Figure | None:
    """How much score an entry loses from one case to another at the same seeds."""
    before, after = runs.scores(entry, easy), runs.scores(entry, hard)
    seeds = sorted(before.keys() & after.keys())
    if not seeds:
        return None
    return figure(
        f"{entry}, {label(easy)} to {label(hard)}", {s: before[s] - after[s] for s in seeds}
    )


def steps_to(record: Record, accuracy: float) -> int:
    """First validated step that reaches the validation accuracy; the last one where none does."""
    reached = (p.step for p in record.curve if p.accuracy is not None and p.accuracy >= accuracy)
    return next(reached, record.curve[-1].step)


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's rho; ties share their mean rank.

    >>> rank_correlation([1, 2, 3], [10, 20, 15])
    0.5
    """
    both = np.stack([_ranks(first), _ranks(second)])
    return round(float(np.asarray(np.corrcoef(both))[0, 1]), 12)


def figure(what: str, values: OfSeed) -> Figure:
    """A figure of one value for each seed."""
    return Figure(what, mean(list(values.values())), tuple(values))


def label(case: Case) -> str:
    """``distractors:dense``; ``base`` and lite go without saying."""
    name = case.task.rpartition("-v")[0]
    profile = "" if case.profile == "lite" else f" ({case.profile})"
    return with_variant(name, case.variant) + profile


def present(figures: Iterable[Figure | None]) -> tuple[Figure, ...]:
    """The figures that exist."""
    return tuple(found for found in figures if found is not None)


def _shared(runs: Runs, entries: Iterable[str], case: Case) -> list[int]:
    """The seeds that the best-run entries of a comparison have in common."""
    found = [set(runs.scores(entry, case)) for entry in entries]
    most = max(map(len, found), default=0)
    full = [seeds for seeds in found if len(seeds) == most and most]
    return sorted(set.intersection(*full)) if full else []


def _having(runs: Runs, entries: Iterable[str], case: Case, seeds: Iterable[int]) -> list[str]:
    return [entry for entry in entries if set(seeds) <= set(runs.scores(entry, case))]


def _ranks(values: Sequence[float]) -> NDArray[np.float64]:
    array = np.asarray(values)
    return np.array([((array < v).sum() + (array <= v).sum() + 1) / 2 for v in array])
