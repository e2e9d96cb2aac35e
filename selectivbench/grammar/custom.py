"""Grammars from a list of transitions, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from selectivbench.errors import UsageError, explain, near
from selectivbench.grammar.model import END, Grammar, Transition


def build(
    transitions: list[Transition], starts: Sequence[str], symbol: Mapping[str, str] | None
) -> Grammar:
    """The grammar of :meth:`Grammar.from_transitions`; names in order of appearance, the end last."""
    named = [name for source, target, _ in transitions for name in (source, target)]
    states = [name for name in dict.fromkeys([*starts, *named]) if name != END]
    emits = {state: (symbol or {}).get(state, state.rstrip("0123456789")) for state in states}
    emits[END] = END
    symbols = [END, *sorted({emits[state] for state in states} - {END})]
    return assemble([*states, END], symbols, emits, starts, transitions)


def assemble(
    states: Sequence[str],
    symbols: Sequence[str],
    emits: Mapping[str, str],
    starts: Sequence[str],
    transitions: Iterable[Sequence[object]],
    *,
    dead_ends: bool = False,
) -> Grammar:
    """A checked grammar from its parts; ``dead_ends`` lets states that no start needs be stuck."""
    index = {state: i for i, state in enumerate(states)}
    symbol_of = np.array([symbols.index(emits[state]) for state in states], dtype=np.int16)
    successor = np.full((len(states), len(symbols)), -1, dtype=np.int16)
    chance = np.zeros(successor.shape)
    for source, target, probability in transitions:
        row, column = _index(index, source), _index(index, target)
        at = (row, symbol_of[column])
        if successor[at] >= 0:
            got = f"two successors of {source!r} emit {symbols[symbol_of[column]]!r}"
            _refuse(got, "one for each symbol", "give one of them a symbol of its own")
        successor[at], chance[at] = column, float(str(probability))
    first = tuple(_index(index, start) for start in starts)
    grammar = Grammar(tuple(states), tuple(symbols), symbol_of, first, successor, chance)
    _check(grammar, dead_ends)
    return grammar


def _check(grammar: Grammar, dead_ends: bool) -> None:
    """Probabilities sum to 1, starts exist, and every state (or every start) reaches the end."""
    if not grammar.starts or grammar.end in grammar.starts:
        _refuse(
            f"starts {[grammar.states[i] for i in grammar.starts]}",
            "one or more states, not the end",
        )
    if (grammar.chance < 0).any():
        _refuse("a negative probability", "0 to 1")
    totals = grammar.chance.sum(axis=1)
    totals[grammar.end] += 1.0  # nothing follows the end
    if dead_ends:
        totals[(grammar.successor < 0).all(axis=1)] = 1.0
    wrong = np.flatnonzero(np.abs(totals - 1.0) > 1e-9)
    if wrong.size:
        state = grammar.states[wrong[0]]
        _refuse(f"probabilities out of {state!r} that sum to {totals[wrong[0]]:.6g}", "a sum of 1")
    stuck = np.flatnonzero(grammar.distance_to_end >= grammar.n_states)
    stuck = np.intersect1d(stuck, grammar.starts) if dead_ends else stuck
    if stuck.size:
        _refuse(
            f"no way from {grammar.states[stuck[0]]!r} to {END!r}",
            "a way to the end from every state",
        )


def _index(index: Mapping[str, int], name: object) -> int:
    if name not in index:
        raise UsageError(explain("state", name, near(str(name), index)))
    return index[str(name)]


def _refuse(got: str, allowed: str, remedy: str = "") -> None:
    raise UsageError(explain("grammar", got, allowed, remedy))
