"""Gate values to put in the place of a model's own: held at their mean, or swapped between steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from selectivbench.batch import IGNORE
from selectivbench.seeds import Stream
from selectivbench.signals import Signal
from selectivbench.tasks.base import SYMBOL, TO_IGNORE

Values: TypeAlias = Mapping[str, NDArray[np.float32]]
Steering: TypeAlias = Callable[[slice], Values]
"""The values for some rows of what was heard, by signal key."""
TOUCHED = ("write", "forget")
"""Roles of the gates that are replaced: what is read when answering is left alone."""


def steerable(signals: Iterable[Signal]) -> tuple[Signal, ...]:
    """The gates that decide what is written and kept."""
    return tuple(signal for signal in signals if signal.gate and signal.role in TOUCHED)


def clamp(gates: Iterable[Signal], kinds: NDArray[np.int8]) -> Steering:
    """Every gate held, per channel, at its mean over all steps that are no padding."""
    live = kinds != IGNORE
    means = {gate.key: gate.values[live].mean(axis=0, dtype=np.float64) for gate in gates}
    held = {key: mean.astype(np.float32) for key, mean in means.items()}
    return lambda _rows: held


def swap(gates: Iterable[Signal], partner: NDArray[np.int64]) -> Steering:
    """Every gate with the value that it had at each step's partner (B, T)."""
    heard = {gate.key: gate.values for gate in gates}

    def values(rows: slice) -> Values:
        where = partner[rows, :, None]
        return {key: np.take_along_axis(v[rows], where, axis=1) for key, v in heard.items()}

    return values


def partners(kinds: NDArray[np.int8], seed: int, *, control: bool = False) -> NDArray[np.int64]:
    """(B, T): each symbol's partner is a step to be ignored, drawn at random, and the other way
    round; as many pairs as the sequence allows. Every other step is its own partner.

    control: as many pairs, but both of them steps to be ignored.
    """
    partner = np.tile(np.arange(kinds.shape[1]), (len(kinds), 1))
    for number, row in enumerate(kinds):
        rng = Stream.named("probe", "swap", seed).rng(number)
        one, two = (
            rng.permutation(np.flatnonzero(side))
            for side in (row == SYMBOL, np.isin(row, TO_IGNORE))
        )
        if control:
            one, two = two[: min(len(one), len(two) // 2)], two[::-1]
        pairs = min(len(one), len(two))
        one, two = one[:pairs], two[:pairs]
        partner[number, one], partner[number, two] = two, one
    return partner
