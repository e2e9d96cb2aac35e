"""The frozen arrays of one batch, and their encoding into what a model sees.

The controller makes batches and ships only ``tokens`` and ``noise_seeds`` (in training ``targets``
too); the child encodes them here. This module is all of the data side that a child imports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from selectivbench.errors import UsageError, explain

BLANK = -1
"""Token of a step that shows no symbol (an all-zero row before noise)."""
PAD = -2
"""Token of a step after the end of a sequence; it stays exactly zero, noise or not."""
IGNORE = -1
"""Target of a step without a loss; also the element id of a step that belongs to none."""

Kind = Literal["one_hot", "token_ids", "dense"]


@dataclass(frozen=True)
class Batch:
    """B sequences of at most T steps.

    tokens (B, T) int16: symbol id, BLANK or PAD.
    targets (B, T) int32: class id, or IGNORE where there is no loss.
    element (B, T) int32: which element a step belongs to, or IGNORE where it is not scored.
    noise_seeds (B,) uint64: one for each sequence, or empty where the task has no noise.
    """

    tokens: NDArray[np.int16]
    targets: NDArray[np.int32]
    element: NDArray[np.int32]
    noise_seeds: NDArray[np.uint64]

    def __post_init__(self) -> None:
        assert self.tokens.shape == self.targets.shape == self.element.shape
        assert self.noise_seeds.shape in ((0,), (len(self.tokens),))
        for array in (self.tokens, self.targets, self.element, self.noise_seeds):
            array.setflags(write=False)


@dataclass(frozen=True)
class Encoding:
    """How tokens become the float rows that a model sees.

    kind: ``one_hot`` (n_inputs = number of symbols); ``token_ids`` (one column: id + 1, 0 for a
    blank); ``dense`` (a fixed random unit vector for each symbol).
    noise: upper end of the uniform noise added to every entry of every step that is not padding,
    in 65,536 even levels (finer ones would double the cost of a noisy batch and change nothing).
    """

    kind: Kind
    n_inputs: int
    n_symbols: int
    noise: float = 0.0
    table_seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in ("one_hot", "token_ids", "dense"):
            raise UsageError(explain("encoding", self.kind, "one_hot, token_ids or dense"))
        if not 0 <= self.noise < np.inf:
            raise UsageError(explain("noise", self.noise, "0 or more, finite"))
        least = self.n_symbols if self.kind == "one_hot" else 1
        if self.n_inputs < least:
            raise UsageError(explain(f"inputs of {self.kind}", self.n_inputs, f"{least} or more"))

    @classmethod
    def dense(cls, n_symbols: int, n_inputs: int, snr: float = np.inf, seed: int = 0) -> Encoding:
        """Random unit vectors under uniform noise of a signal-to-noise ratio (of powers: a symbol's
        mean square over the noise's variance, both per entry).

        >>> round(Encoding.dense(50, 64, snr=4.0).noise, 4)
        0.2165
        """
        if not snr > 0:
            raise UsageError(explain("signal-to-noise ratio", snr, "more than 0"))
        return cls("dense", n_inputs, n_symbols, float(np.sqrt(12 / (n_inputs * snr))), seed)

    def encode(
        self, tokens: NDArray[np.int16], noise_seeds: NDArray[np.uint64]
    ) -> NDArray[np.float32]:
        """(B, T) tokens to (B, T, n_inputs) float32; padding rows are exactly zero.

        Noise of sequence i comes from SFC64 of ``noise_seeds[i]``, row after row, four entries to a
        word. UsageError when there is noise but no seed for each sequence.
        """
        if not self.noise:
            return self._table().take(np.clip(tokens, BLANK, None) + 1, axis=0)
        if len(noise_seeds) != len(tokens):
            raise UsageError(
                explain("noise seeds", len(noise_seeds), f"{len(tokens)}, one for each sequence")
            )
        return self._noisy(tokens, noise_seeds)

    def _noisy(
        self, tokens: NDArray[np.int16], noise_seeds: NDArray[np.uint64]
    ) -> NDArray[np.float32]:
        """Noise is drawn in place and symbols are put on top: one pass over a batch that may be
        larger than the processor's cache."""
        rows = np.zeros((*tokens.shape, self.n_inputs), dtype=np.float32)
        table = self._table()
        bits = np.random.SFC64(0)  # one object: making one for each sequence costs more than noise
        state: Any = bits.state
        for row, line, seed in zip(rows, tokens, noise_seeds, strict=True):
            live = row[: np.count_nonzero(line != PAD)]  # padding is always a tail
            flat = live.reshape(-1)
            state["state"]["state"][:] = (seed, seed, seed, 1)
            bits.state = state
            bits.random_raw(12, output=False)  # as its author starts it; three equal words mix
            words = bits.random_raw((flat.size + 3) // 4)
            flat[:] = words.astype("<u8", copy=False).view("<u2")[: flat.size]
            flat *= np.float32(self.noise / 65_536)
            where = np.flatnonzero(line >= 0)
            if self.kind == "one_hot":
                live[where, line[where]] += np.float32(1.0)
            else:
                live[where] += table[line[where] + 1]
        return rows

    def _table(self) -> NDArray[np.float32]:
        """(1 + n_symbols, n_inputs): row 0 is the blank."""
        table = np.zeros((1 + self.n_symbols, self.n_inputs), dtype=np.float32)
        if self.kind == "one_hot":
            table[1:] = np.eye(self.n_symbols, self.n_inputs, dtype=np.float32)
        elif self.kind == "token_ids":
            table[:, 0] = np.arange(1 + self.n_symbols)
        else:
            rng = np.random.Generator(np.random.PCG64(self.table_seed))
            vectors = rng.standard_normal((self.n_symbols, self.n_inputs))
            table[1:] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return table
