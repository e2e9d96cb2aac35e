"""Attention weights made into what every other signal is: a number for each step."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from selectivbench.signals import Signal
from selectivbench.tasks.base import KINDS


@dataclass(frozen=True, eq=False)
class Looks:
    """Where the asked steps of a batch look, summed so that batches can be added up.

    steps: asked steps, over all sequences. kinds (H, K): weight given to each kind of step.
    evenly (K,): what even weights would give. distances (H, T): weight given to steps so far back.
    """

    steps: int
    kinds: NDArray[np.float64]
    evenly: NDArray[np.float64]
    distances: NDArray[np.float64]

    def __add__(self, other: Looks) -> Looks:
        """Of both batches."""
        return Looks(
            self.steps + other.steps,
            self.kinds + other.kinds,
            self.evenly + other.evenly,
            self.distances + other.distances,
        )


def looks(signal: Signal, kinds: NDArray[np.int8], asked: NDArray[np.bool_]) -> Looks:
    """Of attention (B, H, T, T), kinds (B, T) and asked steps (B, T)."""
    steps, who = kinds.shape[1], asked.astype(np.float32)
    even = np.tril(np.ones((steps, steps))) / np.arange(1, steps + 1)[:, None]
    of_kind = np.stack([kinds == kind for kind in range(len(KINDS))], axis=-1).astype(np.float32)
    share = np.einsum("bhqs,bq,bsk->hk", signal.values, who, of_kind, optimize=True)
    evenly = np.einsum("qs,bq,bsk->k", even, who, of_kind, optimize=True)
    by_step = np.einsum("bhqs,bq->hqs", signal.values, who, optimize=True)
    past = np.tril_indices(steps)
    back = past[0] - past[1]
    distances = [np.bincount(back, head[past], steps) for head in by_step]
    return Looks(int(asked.sum()), share.astype(np.float64), evenly, np.stack(distances))


def reachable(asked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(B, T): the steps that an asked step, at or after them, can look at."""
    return np.maximum.accumulate(asked[:, ::-1], axis=1)[:, ::-1]


def received(signal: Signal, asked: NDArray[np.bool_]) -> Signal:
    """(B, T, H): the mean weight that each step gets from the asked steps at and after it, times the
    number of steps these could look at: 1 everywhere where attention is even. 0 where a step is not
    ``reachable``.
    """
    weights, steps = signal.values, asked.shape[1]
    times = asked * np.arange(1, steps + 1)
    later = np.cumsum(asked[:, ::-1], axis=1)[:, ::-1]  # asked steps at and after each
    sums = np.einsum("bhqs,bq->bsh", weights, times.astype(np.float32), optimize=True)
    values = (sums / np.maximum(later, 1)[..., None]).astype(np.float32)
    return replace(signal, values=values)
