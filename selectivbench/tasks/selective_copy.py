"""Selective copy, the textbook task: keep a few marked symbols, ignore the filler, repeat them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selectivbench.batch import IGNORE, Batch, Encoding
from selectivbench.tasks.base import FILLER, Dataset, Levels, Task
from selectivbench.tasks.checks import digest
from selectivbench.tasks.plans import plan_of
from selectivbench.tasks.recall import RecallData, Sample, distinct

SHARE = 16
"""One in this many of all possible samples is held out."""


@dataclass(frozen=True)
class Size:
    """steps before the queries, marked symbols, alphabet, and samples in each split."""

    steps: int
    marked: int
    symbols: int
    train: int
    held_out: int


SIZES = {
    ("smoke", "base"): Size(16, 4, 8, 1_280, 64),
    ("lite", "base"): Size(64, 4, 8, 65_536, 512),
    ("paper", "base"): Size(256, 4, 8, 8_192, 1_024),
    ("paper", "long"): Size(4_096, 16, 16, 131_072, 1_024),
}


class SelectiveCopy(Task):
    """Marked symbols stand at random positions among filler; query slots ask for them in order.

    Drawn (``~`` filler, ``?`` query slot; ``-`` no loss):

    >>> from selectivbench.tasks.drawing import draw
    >>> print(draw(SelectiveCopyData(Size(12, 3, 8, train=64, held_out=8), seed=1)))
    element  - - - - - - - - - - - - 0 1 2
    step     ~ 3 ~ ~ ~ ~ ~ 3 ~ 2 ~ ~ ? ? ?
    target   - - - - - - - - - - - - 3 3 2
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

    def sample(self, words: NDArray[np.uint64], _steps: int) -> Sample:
        """Words go, in turn, to the places of the symbols and to the symbols."""
        before = self.size.steps
        where, symbols = np.hsplit(self._choices(words), 2)
        tokens = np.zeros((len(words), self.max_length), dtype=np.int16)
        np.put_along_axis(tokens, where, symbols.astype(np.int16) + np.int16(1), axis=1)
        tokens[:, before:] = self.size.symbols + 1
        targets = np.full(tokens.shape, IGNORE, dtype=np.int32)
        targets[:, before:] = symbols
        return tokens, targets

    def kinds(self, batch: Batch) -> NDArray[np.int8]:
        kinds = super().kinds(batch)
        kinds[batch.tokens == 0] = FILLER
        return kinds

    def words(self, split: str, where: NDArray[np.int64], attempt: int = 0) -> NDArray[np.uint64]:
        """The first of each sample's attempts that falls into its split's share of all samples.

        At 64 steps there are so few samples that chance would repeat some of training in a test; so
        one sample in ``SHARE``, by hash, is held out and never trained on.
        """
        words, left = super().words(split, where, attempt), np.arange(len(where))
        while left.size:
            held_out = digest(self._choices(words[left])) % np.uint64(SHARE) == 0
            left, attempt = left[held_out == (split == "train")], attempt + 1
            words[left] = super().words(split, where[left], attempt)
        return words

    def codes(self, split: str, where: NDArray[np.int64], _first: int | None) -> NDArray[np.int64]:
        return self._choices(self.words(split, where))

    def _choices(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """(B, 2 marked) places and symbols."""
        marked = self.size.marked
        where = np.sort(distinct(words[:, : 2 * marked], self.size.steps), axis=1)
        symbols = words[:, 2 * marked :] % np.uint64(self.size.symbols)
        return np.hstack([where, symbols.astype(np.int64)])

    def sources(self, tokens: NDArray[np.int16], asked: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.nonzero(tokens[:, : self.size.steps])[1].reshape(asked.shape)

    def words_needed(self, steps: int) -> int:  # noqa: ARG002 - the same at any length
        return 3 * self.size.marked

    def levels(self, split: str = "test") -> Levels:
        """Exact: all query steps look the same, so knowing the current one is knowing nothing."""
        self.check_split(split)
        return Levels(floor=1 / self.n_classes, ceiling=1.0, chance=1 / self.n_classes)
