"""What every task owes, and no more.

A *task* is a rule with an id ``name-vN``; for a (profile, variant, seed) it gives a *dataset*, which
makes batches by index and knows its own floor and ceiling.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from selectivbench.anatomy import Described
from selectivbench.batch import BLANK, IGNORE, PAD, Batch, Encoding

Metric = Literal["accuracy", "negative_kl"]

KINDS = ("symbol", "filler", "noise", "distractor", "query", "end")
"""What a step can be: a symbol to be kept; a filler or blank without noise; a blank under noise; a
symbol to be ignored; a question; the symbol that ends a string."""
SYMBOL, FILLER, NOISE, DISTRACTOR, QUERY, END_SYMBOL = range(len(KINDS))
TO_IGNORE = (FILLER, NOISE, DISTRACTOR)
"""The kinds that a selective layer passes over."""


@dataclass(frozen=True)
class Levels:
    """What predictors of known power reach on one dataset, in the unit of its metric.

    floor: the best predictor that knows the current symbol only, held through its gap.
    ceiling: the Bayes filter's best guess at each element's last step.
    chance: the best constant.
    windows: predictors that know the last k = 1, 2, … symbols.
    memoryless: the strictly per-step predictor, which does not even hold its symbol.
    entropy: nats, where the target is a distribution: the least cross-entropy there is.
    """

    floor: float
    ceiling: float
    chance: float
    windows: tuple[float, ...] = ()
    memoryless: float | None = None
    entropy: float | None = None


class Dataset(ABC):
    """All data of one (task, profile, variant, seed). Immutable, and every sample has an address."""

    encoding: Encoding
    n_classes: int
    max_length: int
    """Longest sequence of any split, in steps."""
    sizes: Mapping[str, int]
    """Samples in each split: ``train``, ``validation``, and all in ``evaluations`` and ``reported``."""
    evaluations: tuple[str, ...] = ("test",)
    """The splits that are scored; a task's figure is their mean."""
    reported: tuple[str, ...] = ()
    """Splits that are evaluated and shown, and do not count."""
    metric: Metric = "accuracy"
    symbol_names: tuple[str, ...] = ()
    """What to call each token id when a sample is drawn; its number where there is no name."""
    class_names: tuple[str, ...] = ()
    """What to call each class id."""

    @abstractmethod
    def batch(self, split: str, indices: Sequence[int] | NDArray[np.int64]) -> Batch:
        """The samples at ``indices`` of a split; the same bytes whoever asks, in whatever order."""

    @abstractmethod
    def levels(self, split: str = "test") -> Levels:
        """Floor and ceiling of one evaluation split."""

    def described(self, split: str) -> Described | None:  # noqa: ARG002 - for tasks that can
        """What each scored element of a split asks of a memory; None where there is nothing to say."""
        return None

    def kinds(self, batch: Batch) -> NDArray[np.int8]:
        """(B, T): what each step of a batch of this dataset is, an index into KINDS; IGNORE for
        padding. Here every shown symbol is one to be kept.
        """
        blank = NOISE if self.encoding.noise else FILLER
        kinds = np.where(batch.tokens == BLANK, blank, SYMBOL)
        return np.where(batch.tokens == PAD, IGNORE, kinds).astype(np.int8)

    def reference(
        self, split: str, indices: Sequence[int] | NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """(B, T, n_classes), the exact distribution of each target; zero where there is no loss.

        Only for a metric that compares distributions; ``negative_kl`` is minus the mean over scored
        steps of KL(exact || predicted), in nats.
        """
        raise NotImplementedError(f"{type(self).__name__} is scored by {self.metric}")


class Task(ABC):
    """One rule of the benchmark, from (profile, variant, seed) to a dataset."""

    id: ClassVar[str]
    summary: ClassVar[str]
    variants: ClassVar[Mapping[str, tuple[str, ...]]]
    """Variants of each profile, the default one first."""

    @property
    def name(self) -> str:
        """The id without its version."""
        return self.id.rpartition("-v")[0]

    @property
    def trains_on(self) -> str:
        """Id of the task whose training this one evaluates: itself, unless it borrows one."""
        return self.id

    @abstractmethod
    def dataset(self, profile: str, variant: str, seed: int) -> Dataset:
        """The data of one seed; building it is cheap, tables are made when they are needed."""
