"""What an element of a grammar task asks of a memory: the properties that its hits are sorted by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from selectivbench.anatomy import Described, Property, doubling, up_to
from selectivbench.grammar import Grammar
from selectivbench.oracle import Distractors, Oracle

DEEPEST = 8
"""Symbols of memory that are told apart; an element may need more."""


def described_elements(
    oracle: Oracle,
    states: NDArray[np.int16],
    gaps: NDArray[np.int64],
    answer: NDArray[np.int16],
) -> Described:
    """(B, N) states, gap steps after each, and the filter's answers.

    Where the oracle knows of distractors a gap step is one; else it is a blank.
    """
    grammar = oracle.walker.grammar
    symbols = grammar.symbol_of[states]
    asked = grammar.class_of[states].ravel().astype(np.int64)
    waits = after_distractor(gaps) if oracle.distractors.probability else after_gap(gaps)
    return Described(
        asked=asked,
        best=(answer == states).ravel(),
        rivals=same_symbol(grammar)[asked],
        properties=(
            up_to("memory", memory_needed(oracle, symbols, answer), DEEPEST, first=1),
            doubling("known", since_plain(grammar, symbols), first=2),
            waits,
        ),
    )


def memory_needed(
    oracle: Oracle, symbols: NDArray[np.int16], answer: NDArray[np.int16]
) -> NDArray[np.int64]:
    """(B, N): the fewest symbols from which on a window gives the filter's answer, right or wrong;
    ``DEEPEST`` + 1 where it takes more. Distractors are left out: they ask for no memory."""
    if oracle.distractors.probability:
        answer, _ = replace(oracle, distractors=Distractors()).filter(symbols)
    needed = np.ones(symbols.shape, dtype=np.int64)
    for k in range(1, DEEPEST + 1):
        needed[oracle.window(symbols, k) != answer] = k + 1
    return needed


def since_plain(grammar: Grammar, symbols: NDArray[np.int16]) -> NDArray[np.int64]:
    """(B, N): elements since the last symbol that only one state has, 0 at it. A sample begins like
    what follows the end of a string."""
    plain = np.bincount(grammar.symbol_of, minlength=grammar.n_symbols) == 1
    place = np.arange(symbols.shape[1])
    last = np.maximum.accumulate(np.where(plain[symbols], place, -1), axis=1)
    return np.asarray(place - last)


def after_gap(gaps: NDArray[np.int64]) -> Property:
    """By the blanks between an element and the one before; a first element has none."""
    before = np.hstack([np.full((len(gaps), 1), -1), gaps[:, :-1]])
    longest = int(gaps.max(initial=0))
    return Property("gap", tuple(map(str, range(longest + 1))), before.ravel())


def after_distractor(gaps: NDArray[np.int64]) -> Property:
    """0: the element that a distractor interrupts, 1: the next; ``none`` before any distractor."""
    place = np.arange(gaps.shape[1])
    last = np.maximum.accumulate(np.where(gaps > 0, place, -99), axis=1)
    since = place - last
    return Property(
        "distractor",
        ("0", "1", "2", "3+", "none"),
        np.where(last < 0, 4, since.clip(max=3)).ravel(),
    )


def same_symbol(grammar: Grammar) -> NDArray[np.int64]:
    """(n_classes, R): the other classes whose states show the same symbol, -1 where there are fewer."""
    states = np.flatnonzero(grammar.class_of >= 0)
    symbol = np.empty(grammar.n_classes, dtype=np.int64)
    symbol[grammar.class_of[states]] = grammar.symbol_of[states]
    same = (symbol[:, None] == symbol[None, :]) & ~np.eye(len(symbol), dtype=bool)
    order = np.argsort(~same, axis=1, kind="stable")[:, : max(1, int(same.sum(axis=1).max()))]
    return np.where(np.take_along_axis(same, order, axis=1), order, -1)
