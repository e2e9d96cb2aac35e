"""What every dataset makes sure of: indices exist, memory suffices, splits share nothing."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from selectivbench.errors import UsageError, explain, near
from selectivbench.tasks.base import Dataset

BYTES_PER_STEP = 2 + 4 + 4
"""Of a batch: token, target, element id."""
PREFIX = 24
"""Elements by which samples are compared first; walks that agree this far are rare."""
CHUNK = 16_384
FREE_ANYWAY = 1 << 26
"""Bytes for which nobody asks the system whether they are there."""


class CheckedDataset(Dataset):
    """A dataset of which no sample is given out before its splits are known to be disjoint.

    That is asserted when the first sample is asked for, not before, so that looking at a dataset's
    sizes stays free; it takes about a second for 200,000 samples of 200 elements.
    """

    @abstractmethod
    def codes(self, split: str, where: NDArray[np.int64], _first: int | None) -> NDArray[np.int64]:
        """(len(where), N): what two samples must differ in, or, of their first elements, something that
        two equal samples agree in."""

    @cached_property
    def disjoint(self) -> bool:
        """True, or UsageError."""
        require_disjoint(self.codes, self.sizes)
        return True

    def located(
        self, split: str, indices: Sequence[int] | NDArray[np.int64], steps: int
    ) -> NDArray[np.int64]:
        """The indices as an array, once all is known to be well; steps: the longest sample's."""
        where = checked_indices(self.sizes, split, indices)
        require_memory(len(where), steps)
        assert self.disjoint
        return where


def checked_indices(
    sizes: Mapping[str, int], split: str, indices: Sequence[int] | NDArray[np.int64]
) -> NDArray[np.int64]:
    """The indices as an array; UsageError when the split or an index does not exist."""
    if split not in sizes:
        raise UsageError(explain("split", split, near(split, sizes)))
    where = np.asarray(indices, dtype=np.int64).reshape(-1)
    if where.size and not 0 <= where.min() <= where.max() < sizes[split]:
        worst = int(where.min() if where.min() < 0 else where.max())
        raise UsageError(explain(f"{split} index", worst, f"0 to {sizes[split] - 1}"))
    return where


def require_memory(samples: int, steps: int) -> None:
    """UsageError when a batch of that many samples would not fit, before anything is allocated."""
    needed = samples * steps * BYTES_PER_STEP
    if needed > FREE_ANYWAY and needed > (free := _free_memory()):
        got = f"{samples:,} samples of up to {steps:,} steps ({needed / 2**30:.1f} GiB)"
        remedy = "ask for fewer samples at a time"
        raise UsageError(explain("batch", got, f"what fits {free / 2**30:.1f} GiB", remedy))


def _free_memory() -> int:
    """Bytes that can be taken without swapping, as Linux tells."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:  # not Linux
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


Codes = Callable[[str, NDArray[np.int64], int | None], NDArray[np.int64]]
"""(split, indices, first elements only) to (B, N) integers; samples are the same iff these are."""


def require_disjoint(codes: Codes, sizes: Mapping[str, int]) -> None:
    """Assert that no sample of a held-out split is a sample of training.

    Streams of different names are independent, so this fails only where samples are so short that
    chance repeats them; evaluations of one walk at several gaps are no leak and may agree.
    """
    held_out = [split for split in sizes if split != "train"]

    def known(length: int | None) -> NDArray[np.uint64]:
        return np.concatenate([digest(codes(x, np.arange(sizes[x]), length)) for x in held_out])

    starts = known(PREFIX)
    for begin in range(0, sizes["train"], CHUNK):
        where = np.arange(begin, min(begin + CHUNK, sizes["train"]))
        suspects = where[np.isin(digest(codes("train", where, PREFIX)), starts)]
        if suspects.size and np.isin(digest(codes("train", suspects, None)), known(None)).any():
            got = f"one of the training samples {suspects[:5].tolist()} in a held-out split too"
            raise UsageError(explain("splits", got, "no shared sample", "make samples longer"))


def digest(rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """(B,) 64-bit hash of each row, in which the order of entries counts."""
    total = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.T.astype(np.uint64):
        total = (total ^ column) * np.uint64(0x9E3779B97F4A7C15)
        total ^= total >> np.uint64(29)
    return total
