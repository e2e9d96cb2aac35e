"""Random grammars, bit for bit those of the published generator (SelectivBench, commit 54609fb)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selectivbench.compiled import kernels
from selectivbench.errors import UsageError, explain
from selectivbench.grammar.model import END, Grammar

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
MAX_DRAWS = 100_000
HOPELESS = 1e-9
"""Chance that any of MAX_DRAWS draws is valid below which parameters are refused at once."""


@dataclass(frozen=True)
class Parameters:
    """What a random grammar is drawn by.

    alphabet_size: symbols, the end symbol included (2..53).
    ambiguities: how many symbols several states share; ambiguity_depth: how many states each.
    initial_states: start states, equally likely.
    transition_density: share of all pairs of states that are joined; a pair (state, symbol) has a
    transition with probability density x states of the symbol.
    min_string_length: transitions on the shortest way from any start to the end.
    require_exit_from_all: every state can reach the end (else only the start states must).
    allow_unreachable_cycles: if not, the first start state must reach every state that is no start.
    """

    alphabet_size: int
    ambiguities: int
    ambiguity_depth: int
    initial_states: int = 4
    transition_density: float = 0.05
    min_string_length: int = 1
    require_exit_from_all: bool = True
    allow_unreachable_cycles: bool = True

    def __post_init__(self) -> None:
        checks: dict[str, tuple[float, float]] = {
            "alphabet_size": (2, len(LETTERS) + 1),
            "ambiguities": (0, self.alphabet_size - 1),
            "ambiguity_depth": (1 if self.ambiguities else 0, 2000),
            "initial_states": (1, self.n_states - 1),
            "transition_density": (0.0, 1.0),
            "min_string_length": (0, self.n_states - 1),
        }
        for name, (low, high) in checks.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise UsageError(explain(name, value, f"{low} to {high}"))
        if self.n_states > 32_000:
            raise UsageError(explain("states", self.n_states, "at most 32000", "lower the depth"))
        self._refuse_hopeless()

    @property
    def n_states(self) -> int:
        plain = self.alphabet_size - 1 - self.ambiguities
        return plain + self.ambiguities * self.ambiguity_depth + 1

    def _refuse_hopeless(self) -> None:
        """No draw can be valid unless the end has a way in and (by default) each state a way out."""
        edge = np.minimum(1.0, np.array(self._group_sizes()) * self.transition_density)
        way_out = 1.0 - float(np.prod(1.0 - edge))
        states = self.n_states - 1
        every = self.require_exit_from_all or not self.allow_unreachable_cycles
        log_valid = states * np.log(max(way_out, 1e-300)) if every else 0.0
        way_in = 1.0 - (1.0 - float(edge[-1])) ** states
        log_valid += np.log(max(way_in, 1e-300))
        if log_valid + np.log(MAX_DRAWS) < np.log(HOPELESS):
            got = (
                f"density {self.transition_density:g} over {self.n_states} states, of which a draw "
                f"is valid with a chance below {np.exp(max(log_valid, -700.0)):.0e}"
            )
            allowed = "a density at which every state has a way to the end"
            raise UsageError(
                explain("grammar", got, allowed, "raise transition_density or lower the depth")
            )

    def _group_sizes(self) -> list[int]:
        """States of each symbol with the plain symbols first; the end comes last."""
        plain = self.alphabet_size - 1 - self.ambiguities
        return [1] * plain + [self.ambiguity_depth] * self.ambiguities + [1]


def generate(seed: int, parameters: Parameters) -> Grammar:
    """The grammar of a seed: the first draw that is valid.

    Randomness: ``default_rng(seed)`` picks one of 100 seeds for Python's generator, which orders the
    shared symbols anew for each draw; NumPy's generator goes on with transitions and start states.
    Raises UsageError when the seed is negative, or when none of 100,000 draws is valid.
    """
    if seed < 0:
        raise UsageError(explain("grammar seed", seed, "0 or more"))
    rng = np.random.default_rng(seed)
    shuffler = random.Random(int(rng.integers(0, 100)))
    for _ in range(MAX_DRAWS):
        grammar = _draw(parameters, rng, shuffler)
        if grammar is not None:
            return grammar
    raise UsageError(
        explain("grammar", f"{parameters} and no valid one in {MAX_DRAWS:,} draws",
                "parameters that some grammar meets", "raise transition_density or initial_states")
    )  # fmt: skip


def _draw(
    parameters: Parameters, rng: np.random.Generator, shuffler: random.Random
) -> Grammar | None:
    """One draw, or None if it is not valid. Both generators end where the published code ends."""
    letters = LETTERS[: parameters.alphabet_size - 1]
    shared = shuffler.sample(letters, parameters.ambiguities) if parameters.ambiguities else []
    blocks = [(x, 1) for x in letters if x not in shared]
    blocks += [(x, parameters.ambiguity_depth) for x in shared]
    blocks.append((END, 1))
    sizes = np.array([dict(blocks)[x] for x in [*letters, END]], dtype=np.int64)
    picks = _draw_edges(rng, sizes, parameters.transition_density, int(sizes.sum()))
    starts = rng.choice(parameters.n_states, parameters.initial_states, replace=False)
    grammar = _name(blocks, set(shared), letters, picks, starts)
    return grammar if _is_valid(grammar, parameters) else None


def _draw_edges(
    rng: np.random.Generator, sizes: NDArray[np.int64], density: float, n_states: int
) -> NDArray[np.int16]:
    """(n_states, n_symbols) picks by source in state order, symbols in alphabet order, the end last."""
    state: Any = rng.bit_generator.state
    mask = (1 << 64) - 1
    pair = [state["state"]["state"], state["state"]["inc"]]
    words = [part for value in pair for part in (value >> 64, value & mask)]
    words += [state["has_uint32"], state["uinteger"], 0]
    raw = np.array(words, dtype=np.uint64)
    picks: NDArray[np.int16] = kernels().draw_edges(raw, sizes, sizes * density, n_states)
    state["state"]["state"] = (int(raw[0]) << 64) | int(raw[1])
    rng.bit_generator.state = state
    rng.bit_generator.advance(-int(raw[6]))  # type: ignore[attr-defined]  # PCG64 can step back
    state = rng.bit_generator.state
    state["has_uint32"], state["uinteger"] = int(raw[4]), int(raw[5])
    rng.bit_generator.state = state
    return picks


def _name(
    blocks: list[tuple[str, int]],
    shared: set[str],
    letters: str,
    picks: NDArray[np.int16],
    starts: NDArray[np.int64],
) -> Grammar:
    """The grammar of a draw; symbol ids put the end first, the draw puts it last."""
    states = [f"{x}{i}" if x in shared else x for x, size in blocks for i in range(size)]
    symbols = (END, *letters)
    symbol_of = np.array([symbols.index(x) for x, size in blocks for _ in range(size)], np.int16)
    offsets = {x: int(np.flatnonzero(symbol_of == i)[0]) for i, x in enumerate(symbols)}
    picks = np.roll(picks, 1, axis=1)
    base = np.array([offsets[x] for x in symbols], dtype=np.int16)
    successor = np.where(picks >= 0, picks + base, np.int16(-1)).astype(np.int16)
    successor[states.index(END)] = -1
    degree = (successor >= 0).sum(axis=1, keepdims=True)
    chance = np.where(successor >= 0, 1.0 / np.maximum(degree, 1), 0.0)
    return Grammar(tuple(states), symbols, symbol_of, tuple(starts.tolist()), successor, chance)


def _is_valid(grammar: Grammar, parameters: Parameters) -> bool:
    """The published rules: no end among the starts, ways to the end, none of them too short."""
    starts = list(grammar.starts)
    if grammar.end in starts:
        return False
    distance = grammar.distance_to_end
    must_exit = parameters.require_exit_from_all or not parameters.allow_unreachable_cycles
    checked = distance if must_exit else distance[starts]
    if checked.max() >= grammar.n_states or distance[starts].min() < parameters.min_string_length:
        return False
    return parameters.allow_unreachable_cycles or _reaches_all(grammar)


def _reaches_all(grammar: Grammar) -> bool:
    """Whether the first start reaches every state that is no start (as published: only the first)."""
    first = Grammar(
        grammar.states, grammar.symbols, grammar.symbol_of, grammar.starts[:1],
        grammar.successor, grammar.chance,
    )  # fmt: skip
    others = np.delete(np.arange(grammar.n_states), list(grammar.starts))
    return bool(first.reachable[others].all())
