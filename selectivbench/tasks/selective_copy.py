"""Selective copy, the textbook task: keep a few marked symbols, ignore the filler, repeat them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selectivbench.batch import BLANK, IGNORE, Batch, Encoding
from selectivbench.seeds import Stream
from selectivbench.tasks.base import Dataset, Levels, Task


@dataclass(frozen=True)
class Size:
    """steps before the queries, marked symbols, alphabet, and samples in each split."""

    steps: int
    marked: int
    symbols: int
    train: int
    held_out: int


SIZES = {
    ("smoke", "base"): Size(16, 2, 4, 1_280, 64),
    ("lite", "base"): Size(64, 4, 8, 65_536, 512),
    ("paper", "base"): Size(256, 4, 8, 8_192, 1_024),
    ("paper", "long"): Size(4_096, 16, 16, 131_072, 1_024),
}


class SelectiveCopy(Task):
    """Marked symbols stand at random positions among filler; query slots ask for them in order.

    Drawn (``.`` filler, ``?`` query slot; loss and score at the query slots only):

    >>> size = Size(steps=12, marked=3, symbols=8, train=8, held_out=8)
    >>> print(draw(SelectiveCopyData(size, seed=1).batch("train", [0])))
    step    .3...2.....1???
    target  ............321
    """

    id = "selective_copy-v1"
    summary = "repeat 4 symbols that were scattered among filler, in order"
    variants = {
        "smoke": ("base",),
        "lite": ("base",),
        "paper": ("base", "long"),
    }

    def dataset(self, profile: str, variant: str, seed: int) -> Dataset:
        return SelectiveCopyData(SIZES[profile, variant], seed)


class SelectiveCopyData(Dataset):
    """Tokens: filler 0, symbols 1..S, query S + 1; classes 0..S - 1."""

    def __init__(self, size: Size, seed: int) -> None:
        self.size, self.seed = size, seed
        self.n_classes = size.symbols
        self.max_length = size.steps + size.marked
        self.encoding = Encoding("one_hot", size.symbols + 2, size.symbols + 2)
        self.sizes = {"train": size.train, "validation": size.held_out, "test": size.held_out}

    def batch(self, split: str, indices: Sequence[int] | NDArray[np.int64]) -> Batch:
        stream = Stream.named("selective_copy", self.seed, split)
        steps, marked = self.size.steps, self.size.marked
        tokens = np.zeros((len(indices), self.max_length), dtype=np.int16)
        tokens[:, steps:] = self.size.symbols + 1
        targets = np.full(tokens.shape, IGNORE, dtype=np.int32)
        element = np.full(tokens.shape, IGNORE, dtype=np.int32)
        element[:, steps:] = np.arange(marked)
        for row, index in enumerate(indices):
            rng = stream.rng(int(index))
            where = np.sort(rng.choice(steps, marked, replace=False))
            symbols = rng.integers(self.size.symbols, size=marked)
            tokens[row, where] = symbols + 1
            targets[row, steps:] = symbols
        return Batch(tokens, targets, element, np.empty(0, dtype=np.uint64))

    def levels(self, split: str = "test") -> Levels:  # noqa: ARG002 - exact, whatever the split
        """Exact: every query step looks the same, so knowing the current step is knowing nothing."""
        chance = 1 / self.size.symbols
        return Levels(floor=chance, ceiling=1.0, chance=chance)


def draw(batch: Batch) -> str:
    """The first sequence of a selective-copy batch as two lines of text."""
    query = int(batch.tokens[0].max())
    marks = {0: ".", query: "?", BLANK: " "}
    step = "".join(marks.get(int(t), str(int(t) - 1)) for t in batch.tokens[0])
    target = "".join("." if t == IGNORE else str(int(t)) for t in batch.targets[0])
    return f"step    {step}\ntarget  {target}"
