"""The tasks as ``torch.utils.data`` datasets, for use without the harness.

Every sample has an address, so workers, shuffling and batch sizes change no sample: there is no
random state to copy into a worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import torch
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDatasetBase

from selectivbench.batch import Encoding
from selectivbench.tasks.base import Dataset


class Sample(TypedDict):
    """inputs (B, T, n_inputs) float32; targets, element (B, T) int64, -1 where nothing is asked."""

    inputs: torch.Tensor
    targets: torch.Tensor
    element: torch.Tensor


@dataclass(frozen=True)
class TorchSplit(TorchDatasetBase[Sample]):
    """One split; an index gives one unbatched sample, a list of indices a padded batch.

    >>> from selectivbench.tasks import get_task
    >>> split = TorchSplit(get_task("selective_copy").dataset("lite", "base", seed=1), "test")
    >>> len(split), tuple(split[0]["inputs"].shape)
    (512, (68, 10))
    """

    data: Dataset
    split: str = "train"
    encoding: Encoding | None = None
    """Another encoding than the task's own: ``token_ids``, say, or ``Encoding.dense``."""

    def __len__(self) -> int:
        return self.data.sizes[self.split]

    def __getitem__(self, index: int) -> Sample:
        batch = self.__getitems__([index])
        return Sample(
            inputs=batch["inputs"][0], targets=batch["targets"][0], element=batch["element"][0]
        )

    def __getitems__(self, indices: Sequence[int]) -> Sample:
        """What ``DataLoader`` asks for: the whole batch at once, already padded."""
        batch = self.data.batch(self.split, indices)
        encoding = self.encoding or self.data.encoding
        return Sample(
            inputs=torch.from_numpy(encoding.encode(batch.tokens, batch.noise_seeds)),
            targets=torch.from_numpy(batch.targets.astype(np.int64)),
            element=torch.from_numpy(batch.element.astype(np.int64)),
        )


def loader(
    data: Dataset, split: str, batch_size: int, *, shuffle: bool = False, workers: int = 0
) -> DataLoader[Sample]:
    """A ``DataLoader`` of padded batches; shuffling follows torch's global seed."""
    return DataLoader(
        TorchSplit(data, split),
        batch_size=batch_size,
        shuffle=shuffle,
        num_workers=workers,
        collate_fn=_as_is,  # type: ignore[arg-type]  # __getitems__ made a batch of the list
    )


def _as_is(batch: Sample) -> Sample:
    """``__getitems__`` has collated already."""
    return batch
