"""Device-hours of a sweep before it runs: measured steps scaled to its sizes, or an assumed GPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from selectivbench.errors import UsageError, explain
from selectivbench.sweep.laws import Laws
from selectivbench.sweep.load import FORWARD, Load, Loads, Tokens, trained_by
from selectivbench.sweep.runs import Run

OPERATIONS = 6
"""Floating-point operations of a training step for each token and number that it is multiplied with, a
parameter or a key's or value's: 2 forward, 4 backward."""


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
        trained, predicted = (
            self._work(load, laws, part) for part in (load.trained, load.predicted)
        )
        return max(trained, self.floor * load.steps) + FORWARD * predicted

    def _work(self, load: Load, laws: Laws, tokens: Tokens) -> float:
        """Seconds to train on so many tokens."""
        factors = laws.factors(load.width, tokens.length) * load.layers
        return OPERATIONS * factors * tokens.count / (self.tflops * 1e12)


@dataclass(frozen=True)
class Measured:
    """The device that the steps were measured on."""

    def seconds(self, load: Load, laws: Laws) -> float:
        """Of one cell: linear in tokens and blocks, by the law of the width and the length."""
        trained, predicted = (
            laws.seconds.at(load.width, part.length) * part.count
            for part in (load.trained, load.predicted)
        )
        return load.layers * (trained + FORWARD * predicted)


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
