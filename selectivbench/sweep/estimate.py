"""Device-hours of a sweep before it runs: measured steps scaled to its sizes, or an assumed GPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from selectivbench.errors import UsageError, explain
from selectivbench.sweep.load import Load, Loads, trained_by
from selectivbench.sweep.runs import Run
from selectivbench.sweep.timing import Laws

OPERATIONS = 6
"""Floating-point operations of a training step for each parameter and token: 2 forward, 4 backward."""


@dataclass(frozen=True)
class Gpu:
    """A GPU that was not measured, as two assumptions.

    tflops: what is sustained over a step. floor: seconds of the shortest step, whatever its size
    (kernel launches, the optimiser).
    """

    tflops: float
    floor: float = 0.03

    def seconds(self, load: Load, laws: Laws) -> float:
        """Of one cell: its operations, but no step below the floor."""
        work = OPERATIONS * laws.parameters.at(load.width) * load.layers / (self.tflops * 1e12)
        trained = max(work * load.trained, self.floor * load.steps)
        return trained + work * (load.tokens - load.trained)


@dataclass(frozen=True)
class Measured:
    """The device that the steps were measured on."""

    def seconds(self, load: Load, laws: Laws) -> float:
        """Of one cell: time is linear in tokens and blocks, and follows the width's law."""
        return laws.seconds.at(load.width) * load.layers * load.tokens


def seconds_of(
    runs: Iterable[Run], device: Gpu | Measured, laws: Mapping[tuple[str, str], Laws]
) -> Iterator[float]:
    """Of each run, in their order; UsageError where its submission was not measured."""
    loads = Loads()
    for run in runs:
        yield device.seconds(loads.of(run), laws_of(run, laws))


def laws_of(run: Run, laws: Mapping[tuple[str, str], Laws]) -> Laws:
    """The laws of a run's submission on the task that it trains."""
    at = run.training.submission.stem, trained_by(run.training).name
    if at not in laws:
        allowed = ", ".join(map(" on ".join, sorted(laws))) or "none yet"
        remedy = "`selectivbench sweep measure` measures it"
        raise UsageError(explain("measured submission", " on ".join(at), allowed, remedy))
    return laws[at]
