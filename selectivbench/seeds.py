"""The only maker of randomness: named, disjoint, index-addressable streams.

A stream is a Philox key derived from a path of names; sample ``i`` of a stream owns the counter block
``i``, so it is the same whoever asks for it, in whatever batch, order or process, and two streams
with different names never share a key (128-bit BLAKE2b).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selectivbench.errors import UsageError, explain

SPLITS = ("train", "validation", "test", "audit")


@dataclass(frozen=True)
class Stream:
    """One named stream of independent generators, addressed by an index.

    >>> a = Stream.named("walk", 1, "train")
    >>> int(a.rng(7).integers(1000)) == int(Stream.named("walk", 1, "train").rng(7).integers(1000))
    True
    """

    key: int

    @classmethod
    def named(cls, *path: str | int) -> Stream:
        """The stream of a path of names and whole numbers; different paths, different streams."""
        assert not any("/" in str(part) for part in path), "a name could imitate a path"
        text = "/".join(f"{type(part).__name__}:{part}" for part in path)
        return cls(
            int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")
        )

    def rng(self, index: int = 0) -> np.random.Generator:
        """The generator of sample ``index`` (0 or more); 2**128 draws are its own."""
        if index < 0:
            raise UsageError(explain("sample index", index, "0 or more"))
        return np.random.Generator(np.random.Philox(key=self.key, counter=int(index) << 128))

    def seed(self, index: int = 0) -> int:
        """A 63-bit seed for a library that wants one number (torch, say)."""
        return int(self.rng(index).integers(2**63))


def raw_words(
    stream: Stream, indices: NDArray[np.int64], count: int, *, skip: int = 0
) -> NDArray[np.uint64]:
    """(len(indices), count) uint64: for each index the words that ``stream.rng(index)`` draws from,
    less the first ``skip``; all samples at once, and equal to asking for them one by one.
    """
    from selectivbench.compiled import kernels

    where = np.ascontiguousarray(indices, dtype=np.int64)
    if where.size and where.min() < 0:
        raise UsageError(explain("sample index", int(where.min()), "0 or more"))
    low, high = np.uint64(stream.key & (2**64 - 1)), np.uint64(stream.key >> 64)
    words = kernels().philox(low, high, where, skip + count)
    return np.asarray(words[:, skip:], dtype=np.uint64)


def uniforms(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Words as numbers in [0, 1), the way ``Generator.random`` makes them."""
    return np.asarray((words >> np.uint64(11)) * 2.0**-53, dtype=np.float64)
