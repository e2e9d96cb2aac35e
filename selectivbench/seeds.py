"""The only maker of randomness: named, disjoint, index-addressable streams.

A stream is a Philox key derived from a path of names; sample ``i`` of a stream owns the counter block
``i``, so it is the same whoever asks for it, in whatever batch, order or process, and two streams
with different names never share a key (128-bit BLAKE2b).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

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
