"""Induction: after a mark that came once before, say what followed it then."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selectivbench.batch import IGNORE, Batch, Encoding
from selectivbench.tasks.base import DISTRACTOR, SYMBOL, Dataset, Levels, Task
from selectivbench.tasks.plans import plan_of
from selectivbench.tasks.recall import RecallData, Sample


@dataclass(frozen=True)
class Size:
    """Steps in training, steps of the longest test (a power of two more), symbols, samples."""

    steps: int
    longest: int
    symbols: int
    train: int
    held_out: int


SIZES = {
    ("smoke", "base"): Size(32, 64, 8, 1_280, 64),
    ("lite", "base"): Size(64, 512, 16, 65_536, 256),
    ("paper", "base"): Size(256, 16_384, 16, 200_000, 256),
}


class Induction(Task):
    """Random symbols with one mark (``!``) somewhere and again at the end; recall its successor.

    Olsson et al. (2022); lengths and the extrapolation by powers of two as in Gu and Dao (2023),
    table 2. Drawn (``-`` no loss):

    >>> from selectivbench.tasks.drawing import draw
    >>> print(draw(InductionData(Size(16, 32, 8, 64, 8), seed=1)))
    element  - - - - - - - - - - - - - - - 0
    step     3 ! 2 0 4 7 4 1 4 1 5 0 6 5 7 !
    target   - - - - - - - - - - - - - - - 2
    """

    id = "induction-v1"
    summary = "recall what followed a mark, at lengths never trained on"
    variants = {"smoke": ("base",), "lite": ("base",), "paper": ("base",)}

    def dataset(self, profile: str, variant: str, seed: int) -> Dataset:
        return InductionData(plan_of(self, SIZES, profile, variant), seed)


class InductionData(RecallData):
    """Tokens: symbols 0..S - 1, then the mark; classes: symbols. Only the last step is asked."""

    def __init__(self, size: Size, seed: int) -> None:
        self.symbols = size.symbols
        self.n_classes, self.max_length = size.symbols, size.longest
        self.encoding = Encoding("one_hot", size.symbols + 1, size.symbols + 1)
        self.class_names = tuple(map(str, range(size.symbols)))
        self.symbol_names = (*self.class_names, "!")
        lengths = [size.steps << k for k in range((size.longest // size.steps).bit_length())]
        tests = {f"test-{steps}": (size.held_out, steps) for steps in lengths}
        super().__init__("induction", seed, size.train, tests)

    def sample(self, words: NDArray[np.uint64], _steps: int) -> Sample:
        """The first word places the mark, the others are the symbols."""
        tokens = (words[:, 1:] % np.uint64(self.symbols)).astype(np.int16)
        place = (words[:, 0] % np.uint64(_steps - 2)).astype(np.int64)  # before the last two steps
        rows = np.arange(len(words))
        tokens[rows, place] = tokens[:, -1] = self.symbols
        targets = np.full(tokens.shape, IGNORE, dtype=np.int32)
        targets[:, -1] = tokens[rows, place + 1]
        return tokens, targets

    def sources(self, tokens: NDArray[np.int16], asked: NDArray[np.int64]) -> NDArray[np.int64]:
        place: NDArray[np.int64] = (tokens == self.symbols).argmax(axis=1)
        return place.reshape(asked.shape) + 1

    def kinds(self, batch: Batch) -> NDArray[np.int8]:
        """To be kept are the first mark and what follows it; every other symbol is in the way."""
        kinds = super().kinds(batch)
        mark = batch.tokens == self.symbols
        kept = mark | np.roll(mark, 1, axis=1)  # the last step is a mark, but a query at that
        kept[:, 0] = mark[:, 0]
        kinds[(kinds == SYMBOL) & ~kept] = DISTRACTOR
        return kinds

    def words_needed(self, steps: int) -> int:
        return steps + 1

    def levels(self, split: str = "test-64") -> Levels:
        """Exact: the last step always shows the mark, and the answer is uniform."""
        self.check_split(split)
        return Levels(floor=1 / self.symbols, ceiling=1.0, chance=1 / self.symbols)
