"""A dataset of which only the first held-out samples are used: for rehearsals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from selectivbench.batch import Batch
from selectivbench.tasks.base import Dataset, Levels


class Shortened(Dataset):
    """The dataset under it, with at most ``held_out`` samples in every split but training.

    Floor and ceiling stay those of the whole split; there is no description of its elements.
    """

    def __init__(self, data: Dataset, held_out: int) -> None:
        self._data = data
        self.encoding, self.n_classes = data.encoding, data.n_classes
        self.max_length, self.metric = data.max_length, data.metric
        self.evaluations, self.reported = data.evaluations, data.reported
        self.sizes = {
            split: size if split == "train" else min(size, held_out)
            for split, size in data.sizes.items()
        }

    def batch(self, split: str, indices: Sequence[int] | NDArray[np.int64]) -> Batch:
        return self._data.batch(split, indices)

    def levels(self, split: str = "test") -> Levels:
        return self._data.levels(split)

    def reference(
        self, split: str, indices: Sequence[int] | NDArray[np.int64]
    ) -> NDArray[np.float32]:
        return self._data.reference(split, indices)
