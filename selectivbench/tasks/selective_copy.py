"""Selective copy, the textbook task: keep a few marked symbols, ignore the filler, repeat them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selectivbench.batch import IGNORE, Encoding
from selectivbench.tasks.base import Dataset, Levels, Task
from selectivbench.tasks.plans import plan_of
from selectivbench.tasks.recall import RecallData, Sample, distinct


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

    Drawn (``~`` filler, ``?`` query slot; ``-`` no loss):

    >>> from selectivbench.tasks.drawing import draw
    >>> print(draw(SelectiveCopyData(Size(12, 3, 8, train=64, held_out=8), seed=1)))
    """

    id = "selective_copy-v1"
    summary = "repeat 4 symbols that were scattered among filler, in order"
    variants = {
        "smoke": ("base",),
        "lite": ("base",),
        "paper": ("base", "long"),
    }

    def dataset(self, profile: str, variant: str, seed: int) -> Dataset:
        return SelectiveCopyData(plan_of(self, SIZES, profile, variant), seed)


class SelectiveCopyData(RecallData):
    """Tokens: filler 0, symbols 1..S, query S + 1; classes 0..S - 1."""

    def __init__(self, size: Size, seed: int) -> None:
        self.size = size
        self.n_classes, self.max_length = size.symbols, size.steps + size.marked
        self.encoding = Encoding("one_hot", size.symbols + 2, size.symbols + 2)
        self.class_names = tuple(map(str, range(size.symbols)))
        self.symbol_names = ("~", *self.class_names, "?")
        tests = {"test": (size.held_out, self.max_length)}
        super().__init__("selective_copy", seed, size.train, tests)

    def sample(self, words: NDArray[np.uint64], steps: int) -> Sample:
        """Words go, in turn, to the places of the symbols and to the symbols."""
        marked = self.size.marked
        before = steps - marked
        where = np.sort(distinct(words[:, : 2 * marked], before), axis=1)
        symbols = (words[:, 2 * marked :] % np.uint64(self.size.symbols)).astype(np.int16)
        tokens = np.zeros((len(words), steps), dtype=np.int16)
        np.put_along_axis(tokens, where, symbols + np.int16(1), axis=1)
        tokens[:, before:] = self.size.symbols + 1
        targets = np.full(tokens.shape, IGNORE, dtype=np.int32)
        targets[:, before:] = symbols
        return tokens, targets

    def words_needed(self, steps: int) -> int:  # noqa: ARG002 - the same at any length
        return 3 * self.size.marked

    def levels(self, split: str = "test") -> Levels:
        """Exact: all query steps look the same, so knowing the current one is knowing nothing."""
        self.check_split(split)
        return Levels(floor=1 / self.n_classes, ceiling=1.0, chance=1 / self.n_classes)
