"""A dataset of which only the first held-out samples are used: for rehearsals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from selectivbench.batch import Batch
from selectivbench.tasks.base import Dataset, Levels


class Shortened(Dataset):
    """The dataset under it, with at most ``held_out`` samples in every split but training.

    even: no split may have more steps than so many samples of training; where its sequences are
    longer it has fewer, but one at least. Floor and ceiling stay those of the whole split; there is
    no description of its elements.
    """

    def __init__(self, data: Dataset, held_out: int, even: bool = False) -> None:
        self._data, self._held_out, self._even = data, held_out, even
        self.encoding, self.n_classes = data.encoding, data.n_classes
        self.max_length, self.metric = data.max_length, data.metric
        self.evaluations, self.reported = data.evaluations, data.reported

    @cached_property
    def sizes(self) -> Mapping[str, int]:  # type: ignore[override]
        return {
            split: size if split == "train" else min(size, self._most(split))
            for split, size in self._data.sizes.items()
        }

    def _most(self, split: str) -> int:
        if not self._even:
            return self._held_out
        share = self._steps("train") / self._steps(split)
        return max(1, round(self._held_out * min(1.0, share)))

    def _steps(self, split: str) -> int:
        """Of its first sample."""
        return int(self._data.batch(split, [0]).tokens.shape[1])

    def batch(self, split: str, indices: Sequence[int] | NDArray[np.int64]) -> Batch:
        return self._data.batch(split, indices)

    def levels(self, split: str = "test") -> Levels:
        return self._data.levels(split)

    def reference(
        self, split: str, indices: Sequence[int] | NDArray[np.int64]
    ) -> NDArray[np.float32]:
        return self._data.reference(split, indices)
