"""From a sweep to its cells, one at a time: a million of them are never held at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from selectivbench.sizes import Size
from selectivbench.sweep.axes import EVALUATION, VARIANT
from selectivbench.sweep.draws import point
from selectivbench.sweep.file import Sweep


@dataclass(frozen=True)
class Cell:
    """One run of a sweep: a submission and a seed at one point of the axes.

    sizes: what the axes and the fixed values say, in the words of ``selectivbench train``.
    varied: the values of the sweep's axes alone.
    """

    submission: Path
    task: str
    variant: str | None
    profile: str
    seed: int
    sizes: Mapping[str, Size]
    varied: Mapping[str, Size]
    evaluation: str | None = None
    draw: int | None = None
    """Its number in a random search."""

    def __str__(self) -> str:
        """One line for a person."""
        point = " ".join(f"{axis}={value}" for axis, value in self.varied.items())
        return f"{self.submission.stem} {point} seed={self.seed}"


def count(sweep: Sweep) -> int:
    """How many cells a sweep has, without making them."""
    points = math.prod(len(values) for values in sweep.grid.values())
    draws = sweep.draws.count if sweep.draws else 1
    return len(sweep.submissions) * points * draws * len(sweep.seeds)


def cells(sweep: Sweep) -> Iterator[Cell]:
    """Every cell, in the order of the file: submissions, grid, draws, seeds."""
    for submission in sweep.submissions:
        fixed = {**sweep.fixed, **sweep.of_submission.get(submission.stem, {})}
        for varied, draw in _points(sweep):
            settings = {**fixed, **varied}
            variant = settings.pop(VARIANT, None)
            evaluation = settings.pop(EVALUATION, None)
            for seed in sweep.seeds:
                yield Cell(
                    submission=submission,
                    task=sweep.task,
                    variant=_name(variant),
                    profile=sweep.profile,
                    seed=seed,
                    sizes=settings,
                    varied=varied,
                    evaluation=_name(evaluation),
                    draw=draw,
                )


def _points(sweep: Sweep) -> Iterator[tuple[dict[str, Size], int | None]]:
    for values in product(*sweep.grid.values()):
        of_grid = dict(zip(sweep.grid, values, strict=True))
        if sweep.draws is None:
            yield of_grid, None
            continue
        for index in range(sweep.draws.count):
            yield of_grid | point(sweep.draws.ranges, sweep.draws.seed, index), index


def _name(value: Size | None) -> str | None:
    return None if value is None else str(value)
