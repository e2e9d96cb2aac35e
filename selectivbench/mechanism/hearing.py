"""One pass of a trained child over held-out data: what its layers did, and what it answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from selectivbench.batch import IGNORE, Batch
from selectivbench.errors import ProtocolError, UsageError, explain
from selectivbench.mechanism.attention import Looks, looks, reachable, received
from selectivbench.metrics import divergence, element_hits, finite
from selectivbench.sandbox.controller import PREDICT_DEADLINE, Child, Logits
from selectivbench.signals import Signal
from selectivbench.tasks.base import Dataset

Marks: TypeAlias = NDArray[np.float64]
"""(B, 2): points of each sequence, and what they are divided by."""

PAIRS_AT_ONCE = 1 << 23
"""Pairs of steps, over the sequences of one batch, so that attention fits into a frame."""
LARGEST_BATCH = 256
LARGEST_HEARD = 4 << 30
"""Bytes of signals that are kept, where nobody asks for less."""


@dataclass(frozen=True, eq=False)
class Part:
    """One batch as it was asked, and the true distributions where the metric needs them."""

    rows: slice
    batch: Batch
    exact: NDArray[np.float32] | None

    def marks(self, logits: Logits) -> Marks:
        """Each sequence's part of the figure; ProtocolError where a logit is no number."""
        if not finite(logits):
            raise ProtocolError("logits: got NaN or infinity, allowed: finite numbers.")
        element, targets = self.batch.element, self.batch.targets
        each = [slice(i, i + 1) for i in range(len(element))]
        if self.exact is None:
            hits = [element_hits(logits[i], targets[i], element[i]) for i in each]
            return np.array(hits, dtype=np.float64)
        nats = [divergence(logits[i], self.exact[i], element[i]) for i in each]
        return np.array(nats, dtype=np.float64) * (-1, 1)


@dataclass(frozen=True, eq=False)
class Heard:
    """All that was heard, batches put together; shorter ones are padded.

    signals: each (B, T, C); of attention, the weight that a step received. looks: by signal key,
    where attention went. kinds (B, T): what each step is. asked (B, T): the steps with a target.
    """

    parts: tuple[Part, ...]
    signals: tuple[Signal, ...]
    looks: Mapping[str, Looks]
    kinds: NDArray[np.int8]
    asked: NDArray[np.bool_]
    marks: Marks

    def kinds_of(self, signal: Signal) -> NDArray[np.int8]:
        """What each step is, for a signal: attention says nothing of steps that nobody asks about."""
        if signal.key not in self.looks:
            return self.kinds
        return np.where(reachable(self.asked), self.kinds, IGNORE).astype(np.int8)


def figure(marks: Marks) -> float:
    """In the unit of the task's metric."""
    points, of = marks.sum(axis=0)
    return float(points / of)


def listen(
    child: Child,
    data: Dataset,
    split: str,
    sequences: int | None = None,
    deadline: float = PREDICT_DEADLINE,
    most: int = LARGEST_HEARD,
) -> Heard:
    """Let a child run once over the first sequences of a split (default: all), under the probe.

    UsageError where signals take more than ``most`` bytes.
    """
    child.enter("probe", deadline)
    parts, heard, looked, marks = [], [], [], []
    for part in _parts(data, split, _count(data, split, sequences)):
        kinds, asked = data.kinds(part.batch), part.batch.targets != IGNORE
        signals, logits = child.probe(part.batch)
        looked.append({s.key: looks(s, kinds, asked) for s in signals if s.attention})
        heard.append([received(s, asked) if s.attention else s for s in signals])
        _require_room(heard, most)
        marks.append(part.marks(logits))
        parts.append(part)
    return Heard(
        tuple(parts),
        tuple(_joined(group) for group in zip(*heard, strict=True)),
        {key: reduce(add, (each[key] for each in looked)) for key in looked[0]},
        _stacked([data.kinds(part.batch) for part in parts], IGNORE),
        _stacked([part.batch.targets != IGNORE for part in parts], False),
        np.concatenate(marks),
    )


def _parts(data: Dataset, split: str, count: int) -> Iterator[Part]:
    rows = min(LARGEST_BATCH, max(1, PAIRS_AT_ONCE // data.max_length**2))
    for start in range(0, count, rows):
        taken = slice(start, min(count, start + rows))
        where = np.arange(taken.start, taken.stop)
        exact = data.reference(split, where) if data.metric == "negative_kl" else None
        yield Part(taken, data.batch(split, where), exact)


def _count(data: Dataset, split: str, sequences: int | None) -> int:
    most = data.sizes[split]
    if sequences is None:
        return most
    if not 1 <= sequences <= most:
        raise UsageError(explain("sequences", sequences, f"1 to {most}, the size of {split}"))
    return sequences


def _require_room(heard: Sequence[Sequence[Signal]], most: int) -> None:
    taken = sum(signal.values.nbytes for signals in heard for signal in signals)
    if taken > most:
        got, remedy = f"{taken / 2**30:.1f} GiB", "pass --sequences with a smaller number"
        raise UsageError(explain("signals", got, f"{most / 2**30:g} GiB at most", remedy))


def _joined(signals: Sequence[Signal]) -> Signal:
    """One signal of all batches, in the first one's name."""
    if len({(signal.key, signal.values.shape[2]) for signal in signals}) > 1:
        raise ProtocolError("signals: got other ones from one batch to the next.")
    return replace(signals[0], values=_stacked([signal.values for signal in signals], 0))


def _stacked(arrays: Sequence[NDArray[Any]], fill: Any) -> NDArray[Any]:
    """(B, T, …) of all batches; T is the longest one's."""
    steps = max(array.shape[1] for array in arrays)
    wide = [((0, 0), (0, steps - a.shape[1]), *[(0, 0)] * (a.ndim - 2)) for a in arrays]
    padded = [np.pad(a, w, constant_values=fill) for a, w in zip(arrays, wide, strict=True)]
    return np.concatenate(padded)
