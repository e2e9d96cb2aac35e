"""Grammar tasks share this: elements of a walk, each followed by a gap, and the hidden state asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from selectivbench.anatomy import Described
from selectivbench.batch import BLANK, IGNORE, PAD, Batch, Encoding
from selectivbench.compiled import kernels
from selectivbench.errors import UsageError, explain
from selectivbench.grammar import END, Grammar
from selectivbench.oracle import Distractors, Oracle
from selectivbench.seeds import Stream, raw_words, uniforms
from selectivbench.tasks.base import DISTRACTOR, END_SYMBOL, Levels
from selectivbench.tasks.checks import CheckedDataset, checked_indices
from selectivbench.tasks.properties import described_elements
from selectivbench.walks import Walker

NO_DISTRACTORS = Distractors()
Gap = tuple[int, int]
"""Least and most gap steps after an element; the published draw gives the ends half weight."""


@dataclass(frozen=True)
class Plan:
    """All that decides a dataset, bar its seed.

    ambiguities: of the grammar, whose depth is the same and whose alphabet is one more.
    elements: symbols of a sample; gap: blank steps after each, in training and validation.
    gaps: the gap of each evaluation, None for that of training.
    noise: upper end of the noise on every entry.
    train, held_out: samples.
    """

    ambiguities: int
    elements: int
    train: int
    held_out: int
    gap: Gap = (1, 1)
    gaps: tuple[tuple[str, Gap | None], ...] = (("test", None),)
    noise: float = 0.0
    distractors: Distractors = NO_DISTRACTORS

    def __post_init__(self) -> None:
        for low, high in [self.gap, *(gap for _, gap in self.gaps if gap)]:
            if not 0 <= low <= high:
                raise UsageError(explain("gap", (low, high), "least and most steps, 0 or more"))
        if min(self.train, self.held_out) < 0:
            raise UsageError(explain("samples", min(self.train, self.held_out), "0 or more"))

    def longest(self) -> int:
        """Steps of the longest sample of any split."""
        gaps = [most for _, gap in self.gaps for _, most in (gap or self.gap,)]
        return self.elements * (1 + max(*gaps, self.gap[1], bool(self.distractors.probability)))


@lru_cache(maxsize=16)
def oracle_of(seed: int, ambiguities: int, elements: int, distractors: Distractors) -> Oracle:
    """The oracle of a reference grammar; its tables are a few megabytes, made once."""
    return Oracle(Walker(Grammar.random(seed, ambiguities=ambiguities)), elements, distractors)


@dataclass(frozen=True, eq=False)
class Elements:
    """B samples before they are laid out in time: (B, N) states, symbols, gap steps, gap tokens."""

    states: NDArray[np.int16]
    symbols: NDArray[np.int16]
    gaps: NDArray[np.int64]
    fillers: NDArray[np.int16]


class ElementData(CheckedDataset):
    """Tokens: the symbol, then its gap (blanks, or one distractor). Target: the hidden state.

    Randomness: streams ``(name, seed, split, purpose)`` for walk, gaps and noise.
    """

    def __init__(
        self,
        name: str,
        plan: Plan,
        seed: int,
        scored: Sequence[str] = ("test",),
        reported: Sequence[str] = (),
    ) -> None:
        self.name, self.plan, self.seed = name, plan, seed
        self.evaluations, self.reported = tuple(scored), tuple(reported)
        self.oracle = oracle_of(seed, plan.ambiguities, plan.elements, plan.distractors)
        self.grammar = self.oracle.walker.grammar
        self.n_classes = self.grammar.n_classes
        self.max_length = plan.longest()
        symbols = self.grammar.n_symbols
        self.encoding = Encoding("one_hot", symbols, symbols, noise=plan.noise)
        held_out = dict.fromkeys(
            ["validation", "audit", *(name for name, _ in plan.gaps)], plan.held_out
        )
        self.sizes: Mapping[str, int] = {"train": plan.train, **held_out}

    @cached_property
    def symbol_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.grammar.symbols

    @cached_property
    def class_names(self) -> tuple[str, ...]:  # type: ignore[override]
        order = np.argsort(self.grammar.class_of)[-self.n_classes :]
        return tuple(self.grammar.states[i] for i in order)

    def batch(self, split: str, indices: Sequence[int] | NDArray[np.int64]) -> Batch:
        where = self.located(split, indices, self.max_length)
        drawn = self.elements(split, where)
        tokens, targets, element = self._lay_out(drawn, drawn.gaps)
        return Batch(tokens, targets, element, self._noise_seeds(split, where))

    def kinds(self, batch: Batch) -> NDArray[np.int8]:
        """The end of a string is no symbol of the grammar's; a second symbol of one element is a
        distractor."""
        kinds = super().kinds(batch)
        kinds[batch.tokens == self.symbol_names.index(END)] = END_SYMBOL
        if self.plan.distractors.probability:
            same = batch.element[:, 1:] == batch.element[:, :-1]
            late = kinds[:, 1:]
            late[same & (late != IGNORE)] = DISTRACTOR
        return kinds

    def levels(self, split: str = "test") -> Levels:
        """How often each predictor is right on the very elements of the split."""
        checked_indices(self.sizes, split, [])
        return _levels(self.name, self.plan, self.seed, split)

    def described(self, split: str) -> Described | None:
        """By memory needed, gap, elements since a plain state, elements after a distractor."""
        checked_indices(self.sizes, split, [])
        return _described(self.name, self.plan, self.seed, split)

    def elements(self, split: str, where: NDArray[np.int64]) -> Elements:
        """What the samples consist of, before it is laid out."""
        states = self.oracle.walker.native(self._stream(split, "walk"), where, self.plan.elements)
        raw = raw_words(self._stream(split, "gap"), where, 2 * self.plan.elements)
        coin, choice = np.split(uniforms(raw), 2, axis=1)
        gaps, fillers = self._gaps(split, states, coin, choice)
        return Elements(states, self.grammar.symbol_of[states], gaps, fillers)

    def _gaps(
        self,
        split: str,
        states: NDArray[np.int16],
        coin: NDArray[np.float64],
        choice: NDArray[np.float64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
        """(B, N) gap steps and the token in each: blanks, or distractors chosen by state."""
        noise = self.plan.distractors
        if not noise.probability:
            low, high = dict(self.plan.gaps).get(split) or self.plan.gap
            return np.rint(low + (high - low) * coin).astype(np.int64), np.full_like(states, BLANK)
        late = np.arange(states.shape[1]) >= noise.onset
        listed, count = self._foreign
        gaps = ((coin < noise.probability) & late & (count[states] > 0)).astype(np.int64)
        rank = (choice * count[states]).astype(np.int64)
        return gaps, listed[states, rank].astype(np.int16)

    @cached_property
    def _foreign(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of each state, all symbols with those first that cannot follow it, and how many those are."""
        foreign = self.plan.distractors.foreign(self.oracle.walker)
        return np.argsort(~foreign, axis=1, kind="stable"), foreign.sum(axis=1)

    def _lay_out(
        self, drawn: Elements, gaps: NDArray[np.int64]
    ) -> tuple[NDArray[np.int16], NDArray[np.int32], NDArray[np.int32]]:
        classes = self.grammar.class_of[drawn.states]
        laid = kernels().lay_out(drawn.symbols, classes, gaps, drawn.fillers, PAD, IGNORE)
        tokens, targets, element = laid
        return tokens, targets, element

    def _noise_seeds(self, split: str, where: NDArray[np.int64]) -> NDArray[np.uint64]:
        if not self.plan.noise:
            return np.empty(0, dtype=np.uint64)
        return raw_words(self._stream(split, "noise"), where, 1)[:, 0]

    def _stream(self, split: str, purpose: str) -> Stream:
        return Stream.named(self.name, self.seed, split, purpose)

    def codes(self, split: str, where: NDArray[np.int64], _first: int | None) -> NDArray[np.int64]:
        """(len(where), N): states of the first elements, or states and gaps of all.

        Samples that agree wholly agree in their first states too; drawing gaps would double the time.
        """
        count = min(_first or self.plan.elements, self.plan.elements)
        states = self.oracle.walker.native(self._stream(split, "walk"), where, count)
        if _first is not None:
            return states.astype(np.int64)
        coin = uniforms(raw_words(self._stream(split, "gap"), where, count))
        gaps, _ = self._gaps(split, states, coin, coin)
        return np.asarray(states.astype(np.int64) * 128 + gaps)


@dataclass(frozen=True, eq=False)
class Answered:
    """All elements of a split, and what the filter says of each: the state, right or wrong."""

    drawn: Elements
    tokens: NDArray[np.int16]
    """(B, N or more), without blanks: they tell nothing."""
    last: NDArray[np.int64]
    """(B, N): where in ``tokens`` an element ends."""
    answer: NDArray[np.int16]

    def at_end(self, guess: NDArray[np.int16]) -> NDArray[np.int16]:
        """(B, N), of a guess at each token, that at the last one of each element."""
        return np.take_along_axis(guess, self.last, axis=1)


@lru_cache(maxsize=8)
def _answered(name: str, plan: Plan, seed: int, split: str) -> Answered:
    """By content: the same plan, seed and split are evaluated once."""
    data = ElementData(name, replace(plan, train=0), seed)
    drawn = data.elements(split, np.arange(data.sizes[split]))
    shown = drawn.gaps * (drawn.fillers >= 0)
    tokens, _, _ = data._lay_out(drawn, shown)
    last = np.cumsum(shown + 1, axis=1) - 1
    filtered, _ = data.oracle.filter(tokens)
    return Answered(drawn, tokens, last, np.take_along_axis(filtered, last, axis=1))


@lru_cache(maxsize=256)
def _levels(name: str, plan: Plan, seed: int, split: str) -> Levels:
    seen = _answered(name, plan, seed, split)
    drawn = seen.drawn
    oracle = oracle_of(seed, plan.ambiguities, plan.elements, plan.distractors)
    alone = oracle.step_by_step(drawn.symbols, drawn.fillers, drawn.gaps)
    held = alone if plan.distractors.probability else oracle.memoryless(drawn.symbols)

    def right(guess: NDArray[np.int16] | NDArray[np.int64]) -> float:
        return float((guess == drawn.states).mean())

    return Levels(
        floor=right(held),
        ceiling=right(seen.answer),
        chance=right(np.full_like(drawn.states, oracle.occupancy.sum(axis=0).argmax())),
        windows=tuple(right(seen.at_end(oracle.window(seen.tokens, k))) for k in (1, 2, 3, 4)),
        memoryless=right(alone),
    )


@lru_cache(maxsize=8)
def _described(name: str, plan: Plan, seed: int, split: str) -> Described:
    seen = _answered(name, plan, seed, split)
    drawn = seen.drawn
    oracle = oracle_of(seed, plan.ambiguities, plan.elements, plan.distractors)
    return described_elements(oracle, drawn.states, drawn.gaps, seen.answer)
