"""Multi-query associative recall: bind keys to values, answer for each key when it comes again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selectivbench.batch import IGNORE, Batch, Encoding
from selectivbench.seeds import Stream, raw_words, uniforms
from selectivbench.tasks.base import FILLER, Dataset, Levels, Task
from selectivbench.tasks.plans import plan_of
from selectivbench.tasks.recall import RecallData, Sample, distinct

POWER = 0.01
"""Exponent by which queries crowd after the bindings (zoology's ``power_a``)."""


@dataclass(frozen=True)
class Size:
    """Steps of a sample, bindings in it, keys, values and filler symbols there are; samples."""

    steps: int
    pairs: int
    keys: int
    values: int
    fillers: int
    train: int
    held_out: int


SIZES = {
    ("smoke", "base"): Size(32, 4, 16, 16, 8, 1_280, 64),
    ("lite", "base"): Size(64, 4, 32, 32, 8, 65_536, 512),
    ("lite", "pairs8"): Size(64, 8, 32, 32, 8, 65_536, 512),
    **{
        ("paper", f"len{steps}"): Size(steps, pairs, 4_096, 4_096, 64, 100_000, 1_000)
        for steps, pairs in ((64, 4), (128, 8), (256, 16), (512, 64))
    },
}


class Mqar(Task):
    """Pairs of key and value, then the keys once more among filler; at each the value is asked.

    Arora et al. (2023), "Zoology", with its lengths and pairs; filler has symbols of its own, so
    that it never looks like a key. Drawn (``k`` key, ``v`` value, ``~`` filler; ``-`` no loss):

    >>> from selectivbench.tasks.drawing import draw
    >>> print(draw(MqarData(Size(16, 2, 9, 9, 4, 64, 8), seed=1), steps=16))
    element  -  -  -  -  0  -  1  -  -  -  -  -  -  -  -  -
    step     k0 v3 k5 v6 k0 ~1 k5 ~0 ~0 ~0 ~2 ~0 ~0 ~2 ~2 ~1
    target   -  -  -  -  v3 -  v6 -  -  -  -  -  -  -  -  -
    """

    id = "mqar-v1"
    summary = "recall the value bound to each of several keys"
    variants = {
        "smoke": ("base",),
        "lite": ("base", "pairs8"),
        "paper": ("len64", "len128", "len256", "len512"),
    }

    def dataset(self, profile: str, variant: str, seed: int) -> Dataset:
        return MqarData(plan_of(self, SIZES, profile, variant), seed)


class MqarData(RecallData):
    """Tokens: keys, then values, then fillers; classes: values. Large alphabets come as dense rows."""

    def __init__(self, size: Size, seed: int) -> None:
        self.size = size
        symbols = size.keys + size.values + size.fillers
        one_hot = Encoding("one_hot", symbols, symbols)
        self.encoding = one_hot if symbols <= 128 else Encoding.dense(symbols, 128)
        self.n_classes, self.max_length = size.values, size.steps
        groups = (("k", size.keys), ("v", size.values), ("~", size.fillers))
        self.symbol_names = tuple(f"{mark}{i}" for mark, count in groups for i in range(count))
        self.class_names = self.symbol_names[size.keys : size.keys + size.values]
        super().__init__("mqar", seed, size.train, {"test": (size.held_out, size.steps)})

    def sample(self, words: NDArray[np.uint64], _steps: int) -> Sample:
        """Words go, in turn, to keys, values, places of the queries, and fillers."""
        size = self.size
        second, third = 4 * size.pairs, 4 * size.pairs + self.room
        keys, values = self._bindings(words)
        tokens = (
            size.keys + size.values + (words[:, third:] % np.uint64(size.fillers)).astype(np.int16)
        )
        tokens[:, : 2 * size.pairs : 2] = keys
        tokens[:, 1 : 2 * size.pairs : 2] = size.keys + values
        places = 2 * size.pairs + 2 * self._query_places(uniforms(words[:, second:third]))
        rows = np.arange(len(words))[:, None]
        tokens[rows, places] = keys
        targets = np.full(tokens.shape, IGNORE, dtype=np.int32)
        targets[rows, places] = values
        return tokens.astype(np.int16), targets

    def kinds(self, batch: Batch) -> NDArray[np.int8]:
        kinds = super().kinds(batch)
        kinds[batch.tokens >= self.size.keys + self.size.values] = FILLER
        return kinds

    def _bindings(self, words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(B, pairs) keys and the values bound to them."""
        first, second = 2 * self.size.pairs, 4 * self.size.pairs
        keys = distinct(words[:, :first], self.size.keys)
        return keys, distinct(words[:, first:second], self.size.values)

    def codes(self, split: str, where: NDArray[np.int64], _first: int | None) -> NDArray[np.int64]:
        """The bindings alone: no two splits share even those."""
        stream = Stream.named(self.name, self.seed, split)
        return np.hstack(self._bindings(raw_words(stream, where, 4 * self.size.pairs)))

    def sources(self, tokens: NDArray[np.int16], asked: NDArray[np.int64]) -> NDArray[np.int64]:
        keys = tokens[:, : 2 * self.size.pairs : 2]
        queries = np.take_along_axis(tokens, asked, axis=1)
        which: NDArray[np.int64] = (queries[:, :, None] == keys[:, None, :]).argmax(axis=2)
        return 2 * which + 1

    @property
    def room(self) -> int:
        """Places for queries: every other step after the bindings."""
        return (self.size.steps - 2 * self.size.pairs) // 2

    def words_needed(self, steps: int) -> int:
        return 4 * self.size.pairs + self.room + steps

    def _query_places(self, u: NDArray[np.float64]) -> NDArray[np.int64]:
        """Places without repetition, place i with odds (i + 1) ** (POWER - 1): the largest of
        u ** (1 / odds), in order (Efraimidis and Spirakis 2006)."""
        odds = np.arange(1, self.room + 1) ** (POWER - 1)
        keys = np.log(np.maximum(u, 1e-300)) / odds
        return np.argsort(-keys, axis=1, kind="stable")[:, : self.size.pairs]

    def levels(self, split: str = "test") -> Levels:
        """Exact: the value bound to a key is uniform, whatever the key."""
        self.check_split(split)
        return Levels(floor=1 / self.n_classes, ceiling=1.0, chance=1 / self.n_classes)
