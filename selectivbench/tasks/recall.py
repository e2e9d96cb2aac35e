"""Recall tasks share this: samples made whole from a row of random words, queried at some steps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from selectivbench.anatomy import Described, Property, doubling
from selectivbench.batch import IGNORE, Batch
from selectivbench.seeds import Stream, raw_words
from selectivbench.tasks.base import QUERY
from selectivbench.tasks.checks import CheckedDataset, checked_indices

Sample = tuple[NDArray[np.int16], NDArray[np.int32]]
"""(B, T) tokens and targets."""


def distinct(words: NDArray[np.uint64], population: int) -> NDArray[np.int64]:
    """(B, k) numbers below ``population`` without repetition, in random order, from (B, 2 k) words.

    Floyd's sampling (Bentley and Floyd 1987) with the first half, sorted by the second half.
    """
    count = words.shape[1] // 2
    chosen = np.empty((count, len(words)), dtype=np.int32)
    for i in range(count):
        top = population - count + i
        pick = (words[:, i] % np.uint64(top + 1)).astype(np.int32)
        chosen[i] = np.where((chosen[:i] == pick).any(axis=0), top, pick)
    order = words[:, count:].argsort(axis=1, kind="stable")
    return np.take_along_axis(chosen.T, order, axis=1).astype(np.int64)


class RecallData(CheckedDataset):
    """A dataset whose sample is a function of its words; streams ``(name, seed, split)``.

    evaluations: samples and steps of each; training and validation have the steps of the first.
    Each query step is an element of its own.
    """

    def __init__(
        self, name: str, seed: int, train: int, evaluations: Mapping[str, tuple[int, int]]
    ) -> None:
        self.name, self.seed = name, seed
        self.evaluations = tuple(evaluations)
        held_out, steps = evaluations[self.evaluations[0]]
        splits = {
            "train": (train, steps),
            "validation": (held_out, steps),
            "audit": (held_out, steps),
        }
        splits |= evaluations
        self.sizes = {split: size for split, (size, _) in splits.items()}
        self.steps = {split: length for split, (_, length) in splits.items()}

    @abstractmethod
    def sample(self, words: NDArray[np.uint64], _steps: int) -> Sample:
        """The samples of rows of random words."""

    @abstractmethod
    def words_needed(self, steps: int) -> int:
        """How many words a sample of that length takes."""

    def batch(self, split: str, indices: Sequence[int] | NDArray[np.int64]) -> Batch:
        self.check_split(split)
        needed = self.steps[split] + self.words_needed(self.steps[split])
        where = self.located(split, indices, needed)
        tokens, targets = self.sample(self.words(split, where), self.steps[split])
        asked = targets != IGNORE
        element = np.where(asked, np.cumsum(asked, axis=1) - 1, IGNORE).astype(np.int32)
        return Batch(tokens, targets, element, np.empty(0, dtype=np.uint64))

    def described(self, split: str) -> Described | None:
        """By place in the answer and steps to look back; a rival is another answer of the sample."""
        batch = self.batch(split, range(self.sizes[split]))
        asked = np.nonzero(batch.element != IGNORE)[1].reshape(len(batch.tokens), -1)
        answers = np.take_along_axis(batch.targets, asked, axis=1).astype(np.int64)
        count = answers.shape[1]
        places = Property("place", tuple(str(i + 1) for i in range(count)), _each(answers))
        back = doubling("distance", asked - self.sources(batch.tokens, asked))
        return Described(
            asked=answers.ravel(),
            best=np.ones(answers.size, dtype=bool),
            rivals=_others(answers),
            properties=(places, back) if count > 1 else (back,),
        )

    @abstractmethod
    def sources(self, tokens: NDArray[np.int16], asked: NDArray[np.int64]) -> NDArray[np.int64]:
        """(B, answers) steps that show what is asked at the steps ``asked``, which has that shape."""

    def kinds(self, batch: Batch) -> NDArray[np.int8]:
        """Every step that asks is a query."""
        kinds = super().kinds(batch)
        kinds[batch.targets != IGNORE] = QUERY
        return kinds

    def check_split(self, split: str) -> None:
        """UsageError when there is no such split."""
        checked_indices(self.sizes, split, [])

    def words(self, split: str, where: NDArray[np.int64], attempt: int = 0) -> NDArray[np.uint64]:
        """The random words of samples; a task that refuses some may ask for a later attempt."""
        needed = self.words_needed(self.steps[split])
        stream = Stream.named(self.name, self.seed, split)
        return raw_words(stream, where, needed, skip=attempt * needed)

    def codes(self, split: str, where: NDArray[np.int64], _first: int | None) -> NDArray[np.int64]:
        """The tokens."""
        tokens, _ = self.sample(self.words(split, where), self.steps[split])
        return tokens[:, :_first].astype(np.int64)


def _each(answers: NDArray[np.int64]) -> NDArray[np.int64]:
    """(B * answers,): the place of each answer in its sample."""
    return np.broadcast_to(np.arange(answers.shape[1]), answers.shape).ravel()


def _others(answers: NDArray[np.int64]) -> NDArray[np.int64]:
    """(B * answers, answers - 1): what else its sample asks."""
    count = answers.shape[1]
    others = [np.delete(answers, place, axis=1) for place in range(count)]
    return np.stack(others, axis=1).reshape(answers.size, count - 1)
