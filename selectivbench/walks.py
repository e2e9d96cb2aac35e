"""Walks through a grammar: strings after each other, each drawn given that it ends in time.

``native`` walks have their own disjoint streams and sample the conditioned chain itself;
``reference`` walks are bit for bit the published ones, which throw long strings away. Both have the
same distribution. Either way a walk has an address: it is the same whoever asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selectivbench.compiled import kernels
from selectivbench.errors import UsageError, explain
from selectivbench.grammar import Grammar
from selectivbench.seeds import Stream, raw_words

LONGEST = 200
"""Elements of the longest string, its end symbol included (as published)."""


@dataclass(frozen=True)
class Walker:
    """A grammar with the tables for walking it; a fixed few megabytes whatever is drawn.

    longest: elements of the longest string; a longer one never occurs.
    Raises UsageError when no string is that short.
    """

    grammar: Grammar
    longest: int = LONGEST

    def __post_init__(self) -> None:
        shortest = 1 + int(self.grammar.distance_to_end[list(self.grammar.starts)].min())
        if self.longest < shortest:
            raise UsageError(
                explain("longest string", self.longest, f"{shortest} or more elements")
            )

    def native(self, stream: Stream, indices: NDArray[np.int64], length: int) -> NDArray[np.int16]:
        """(len(indices), length) state indices; element t uses word t of the sample's stream."""
        raw = raw_words(stream, indices, length)
        first, target, chance = self.rows
        walked = kernels().conditioned_walks(raw, first, target, chance, self.starts, self.survive)
        return np.asarray(walked, dtype=np.int16)

    def reference(
        self, seed: int, indices: NDArray[np.int64], length: int = LONGEST, shortest: int = 1
    ) -> NDArray[np.int16]:
        """(len(indices), length) state indices, bit for bit the published sequences of a seed.

        Sample i draws from ``default_rng(seed * i)``, so sample 0 is the same draw for every seed.
        Raises UsageError when some string took more than 10,001 attempts, as published, or when a
        walk can run into a state that nothing follows.
        """
        stuck = self.grammar.reachable & (self.grammar.successor < 0).all(axis=1)
        if stuck.sum() > 1:  # the end is one
            got = f"a dead end, {self.grammar.states[int(np.flatnonzero(stuck)[0])]!r}"
            raise UsageError(
                explain("grammar", got, "a successor of every state", "use native walks")
            )
        first, target, _ = self.rows
        words = seed_sequence(np.asarray(indices, dtype=np.uint64) * np.uint64(seed))
        walked = kernels().rejected_walks(
            words, first, target, self.cumulative, self.starts, (shortest, self.longest), length
        )
        if (walked[:, 0] < 0).any():
            got = f"{shortest} to {self.longest} elements"
            raise UsageError(explain("string length", got, "lengths that 10,001 attempts reach"))
        return np.asarray(walked, dtype=np.int16)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        return np.array(self.grammar.starts, dtype=np.int64)

    @cached_property
    def rows(self) -> tuple[NDArray[np.int32], NDArray[np.int16], NDArray[np.float64]]:
        """Compressed rows: where each state's successors begin, the successors, their chances."""
        sources, symbols = np.nonzero(self.grammar.successor >= 0)
        targets = self.grammar.successor[sources, symbols]
        order = np.lexsort((targets, sources))
        chances = self.grammar.chance[sources, symbols][order]
        first = np.searchsorted(sources[order], np.arange(self.grammar.n_states + 1))
        return first.astype(np.int32), targets[order].astype(np.int16), chances

    @cached_property
    def cumulative(self) -> NDArray[np.float64]:
        """Chances summed along each row, in the order and rounding of ``numpy.cumsum``."""
        first, _, chance = self.rows
        summed = np.empty_like(chance)
        for begin, stop in pairwise(first):
            summed[begin:stop] = np.cumsum(chance[begin:stop])
        return summed

    @cached_property
    def survive(self) -> NDArray[np.float64]:
        """(longest, n_states): the probability of reaching the end within r more transitions."""
        table = np.zeros((self.longest, self.grammar.n_states))
        table[0, self.grammar.end] = 1.0
        after = np.maximum(self.grammar.successor, 0)  # where there is none, the chance is 0
        for room in range(1, self.longest):
            table[room] = (self.grammar.chance * table[room - 1][after]).sum(axis=1)
            table[room, self.grammar.end] = 1.0
        return table

    @cached_property
    def ends_in_time(self) -> float:
        """The chance that a string of the unconditioned chain has at most ``longest`` elements."""
        return float(self.survive[-1][self.starts].mean())

    @property
    def rules(self) -> tuple[Any, Any, Any]:
        """The grammar as filters read it: successor (-2 in the end's row), chance, symbol_of."""
        successor = self.grammar.successor.copy()
        successor[self.grammar.end] = -2
        return successor, self.grammar.chance, self.grammar.symbol_of


def seed_sequence(seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """(n, 4) uint64: ``SeedSequence(seed).generate_state(4, uint64)`` for whole arrays of seeds.

    The hash is that of NumPy's SeedSequence (O'Neill's ``seed_seq_fe``): a pool of four words, each
    mixed with every other.
    """
    zero = np.zeros(len(seeds), dtype=np.uint32)
    entropy = [seeds.astype(np.uint32), (seeds >> np.uint64(32)).astype(np.uint32), zero, zero]
    constants = _constants(0x43B0D7E5, 0x931E8875)
    pool = [_hash(word, *next(constants)) for word in entropy]
    for source in range(4):
        for target in range(4):
            if source != target:
                pool[target] = _mix(pool[target], _hash(pool[source], *next(constants)))
    constants = _constants(0x8B51F9DD, 0x58F38DED)
    words = [_hash(pool[i % 4], *next(constants)).astype(np.uint64) for i in range(8)]
    pairs = [words[2 * i] | (words[2 * i + 1] << np.uint64(32)) for i in range(4)]
    return np.stack(pairs, axis=1)


def _constants(constant: int, multiplier: int) -> Any:
    """The running constant of the hash: (before, after) each multiplication, modulo 2**32."""
    while True:
        following = constant * multiplier & 0xFFFFFFFF
        yield np.uint32(constant), np.uint32(following)
        constant = following


def _hash(word: NDArray[np.uint32], before: np.uint32, after: np.uint32) -> NDArray[np.uint32]:
    mixed = (word ^ before) * after
    return mixed ^ (mixed >> np.uint32(16))


def _mix(left: NDArray[np.uint32], right: NDArray[np.uint32]) -> NDArray[np.uint32]:
    mixed: NDArray[np.uint32] = np.uint32(0xCA01F9DD) * left - np.uint32(0x4973F715) * right
    return mixed ^ (mixed >> np.uint32(16))
