"""Next symbol: the odds of what comes next, given everything so far."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from selectivbench.batch import BLANK, IGNORE, Batch
from selectivbench.tasks.base import Dataset, Levels, Task
from selectivbench.tasks.checks import checked_indices, require_memory
from selectivbench.tasks.elements import ElementData, Plan
from selectivbench.tasks.plans import plan_of

PLANS = {
    **{("smoke", v): Plan(8, elements=24, train=1_280, held_out=64) for v in ("gaps", "all")},
    **{("lite", v): Plan(8, elements=32, train=65_536, held_out=512) for v in ("gaps", "all")},
    **{
        ("paper", v): Plan(40, elements=200, train=200_000, held_out=1_000) for v in ("gaps", "all")
    },
}


class NextSymbol(Task):
    """Predict the distribution of the next element's symbol; ``gaps`` asks on blanks, ``all`` always.

    Scored by KL(exact || predicted) in nats against the Bayes filter, which knows that every string
    ends in time; the score is 1 - KL / KL of the unigram predictor. Drawn (training shows what did
    come next; ``-`` no loss):

    >>> from selectivbench.tasks.drawing import draw
    >>> print(draw(NextSymbol().dataset("smoke", "gaps", seed=2), steps=14))
    element  - 0 - 1 - 2 - 3 - 4 - 5 - 6
    step     G . A . H . E . F . E . C .
    target   - A - H - E - F - E - C - G
    """

    id = "next_symbol-v1"
    summary = "give the odds of the next symbol, judged against the exact ones"
    variants = {"smoke": ("gaps", "all"), "lite": ("gaps", "all"), "paper": ("gaps", "all")}

    def dataset(self, profile: str, variant: str, seed: int) -> Dataset:
        return NextSymbolData(
            plan_of(self, PLANS, profile, variant), seed, everywhere=variant == "all"
        )


class NextSymbolData(ElementData):
    """Tokens as in memorization; targets are symbol ids, at blanks or at all steps."""

    metric = "negative_kl"

    def __init__(self, plan: Plan, seed: int, *, everywhere: bool) -> None:
        super().__init__("next_symbol", plan, seed)
        self.n_classes = self.grammar.n_symbols
        self.everywhere = everywhere

    @property
    def class_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.grammar.symbols

    def batch(self, split: str, indices: Sequence[int] | NDArray[np.int64]) -> Batch:
        where = self.located(split, indices, self.max_length)
        tokens, _, element = self._lay_out(drawn := self.elements(split, where), drawn.gaps)
        after = self.oracle.walker.native(
            self._stream(split, "walk"), where, self.plan.elements + 1
        )  # the same walk, one element further
        symbols = self.grammar.symbol_of[after[:, 1:]].astype(np.int32)
        targets = np.take_along_axis(symbols, np.maximum(element, 0), axis=1)
        asked = (tokens == BLANK) | (self.everywhere & (element != IGNORE))
        scored = np.where(asked, element, IGNORE)
        return Batch(tokens, np.where(asked, targets, IGNORE), scored, np.empty(0, dtype=np.uint64))

    def reference(
        self, split: str, indices: Sequence[int] | NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """(B, T, n_symbols), exact odds at each step with a loss."""
        batch = self.batch(split, indices)
        require_memory(len(batch.tokens), self.max_length * self.n_classes)
        odds = self._odds(split, np.asarray(indices, dtype=np.int64))
        spread = odds[np.arange(len(odds))[:, None], np.maximum(batch.element, 0)]
        spread[batch.element == IGNORE] = 0.0
        return spread.astype(np.float32)

    def _odds(self, split: str, where: NDArray[np.int64]) -> NDArray[np.float64]:
        """(B, N, n_symbols) exact odds of the symbol after each element."""
        _, odds = self.oracle.filter(self.elements(split, where).symbols, want_next=True)
        return odds

    def described(self, split: str) -> None:
        """Nothing: odds are neither right nor wrong."""

    def levels(self, split: str = "test") -> Levels:
        """Minus mean KL (nats) of the unigram and the uniform predictor, and of those that know the
        last k symbols; the filter's is zero.

        Every element has as many scored steps as any other, so means over elements are those over
        steps. Entropy: the mean over the split of the exact odds' entropy.
        """
        where = np.arange(self.sizes[checked_split(self, split)])
        odds = self._odds(split, where).reshape(-1, self.n_classes)
        unigram = np.bincount(
            self.grammar.symbol_of, self.oracle.occupancy[1:].mean(axis=0), self.n_classes
        )
        inside = np.log(np.maximum(odds, 1e-300))
        entropy = -float((odds * inside).sum(axis=1).mean())
        against = np.log(np.maximum(unigram, 1e-300))
        floor = -float((odds * (inside - against)).sum(axis=1).mean())
        chance = entropy - float(np.log(self.n_classes))
        symbols = self.elements(split, where).symbols

        def known(k: int) -> float:
            after = self.oracle.window_next(symbols, k).reshape(-1, self.n_classes)
            return -float((odds * (inside - np.log(np.maximum(after, 1e-300)))).sum(axis=1).mean())

        windows = tuple(known(k) for k in (1, 2, 3, 4))
        return Levels(floor, ceiling=0.0, chance=chance, windows=windows, entropy=entropy)


def checked_split(dataset: Dataset, split: str) -> str:
    """The split, which exists."""
    checked_indices(dataset.sizes, split, [])
    return split
