"""The immutable grammar and the tables that walks and oracles read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selectivbench.errors import UsageError, explain

END = "#"
"""The one end symbol, which is also the one end state; its symbol id and its state id are 0."""

Transition = tuple[str, str, float]


@dataclass(frozen=True, eq=False)
class Grammar:
    """A probabilistic finite automaton whose states emit symbols; strings stop at the end state.

    states: names, in the order that random draws go by; the end state is one of them.
    symbols: names by symbol id, the end symbol first.
    symbol_of: (n_states,) int16, the symbol id that each state emits.
    starts: state indices, equally likely.
    successor: (n_states, n_symbols) int16, the state that follows when a symbol does, or -1.
    chance: (n_states, n_symbols) float64, the probability of that transition.

    At most one successor of a state emits a given symbol, so that symbols alone disambiguate.
    Two grammars are equal when all of these are.
    """

    states: tuple[str, ...]
    symbols: tuple[str, ...]
    symbol_of: NDArray[np.int16]
    starts: tuple[int, ...]
    successor: NDArray[np.int16]
    chance: NDArray[np.float64]

    def __post_init__(self) -> None:
        for array in (self.symbol_of, self.successor, self.chance):
            array.setflags(write=False)
        assert self.successor.shape == self.chance.shape == (self.n_states, len(self.symbols))

    @classmethod
    def random(
        cls,
        seed: int,
        alphabet_size: int | None = None,
        ambiguities: int = 8,
        ambiguity_depth: int | None = None,
        initial_states: int = 4,
        transition_density: float | None = None,
        min_string_length: int = 1,
        require_exit_from_all: bool = True,
        allow_unreachable_cycles: bool = True,
    ) -> Grammar:
        """The published generator's grammar of a seed, bit for bit.

        Parameters as in :class:`.generation.Parameters`. Without values, as in the published
        experiments: depth as the ambiguities, one symbol more, density 0.4 / depth. UsageError for
        parameters that no grammar meets.
        """
        from selectivbench.grammar.generation import Parameters, generate

        depth = ambiguities if ambiguity_depth is None else ambiguity_depth
        size = ambiguities + 1 if alphabet_size is None else alphabet_size
        density = 0.4 / max(depth, 1) if transition_density is None else transition_density
        rules = (min_string_length, require_exit_from_all, allow_unreachable_cycles)
        drawn = Parameters(size, ambiguities, depth, initial_states, density, *rules)
        return generate(seed, drawn)

    @classmethod
    def from_transitions(
        cls,
        transitions: Iterable[Transition],
        starts: Sequence[str],
        symbol: Mapping[str, str] | None = None,
    ) -> Grammar:
        """A grammar of one's own, from (source, target, probability).

        symbol: what each state emits; without it, a state's name less its digits.
        Raises UsageError when a state's probabilities do not sum to 1, when two successors of a
        state emit one symbol, when a start is unknown, or when a state cannot reach the end ``#``.

        >>> coin = Grammar.from_transitions([("A", "A", 0.5), ("A", "#", 0.5)], starts=["A"])
        >>> print(coin)
        Grammar: 2 states, 2 symbols, 2 transitions, 1 start, topological entropy 0.4812 nats
        """
        from selectivbench.grammar.custom import build

        return build(list(transitions), starts, symbol)

    @property
    def n_states(self) -> int:
        return len(self.states)

    @property
    def n_symbols(self) -> int:
        return len(self.symbols)

    @property
    def n_transitions(self) -> int:
        return int(np.count_nonzero(self.successor >= 0))

    @property
    def n_classes(self) -> int:
        """Hidden states that a walk can visit, the end among them."""
        return int(self.reachable.sum())

    @cached_property
    def end(self) -> int:
        """Index of the end state."""
        return self.states.index(END)

    @cached_property
    def transitions(self) -> tuple[Transition, ...]:
        """(source, target, probability), by source and then by target, in state order."""
        sources, symbols = np.nonzero(self.successor >= 0)
        targets = self.successor[sources, symbols]
        order = np.lexsort((targets, sources))
        rows = zip(
            sources[order], targets[order], self.chance[sources, symbols][order], strict=True
        )
        return tuple((self.states[s], self.states[t], float(p)) for s, t, p in rows)

    @cached_property
    def state_id(self) -> NDArray[np.int32]:
        """(n_states,) the published class of each state: by symbol id, then by index; the end is 0."""
        order = np.argsort(self.symbol_of, kind="stable")
        ids = np.empty(self.n_states, dtype=np.int32)
        ids[order] = np.arange(self.n_states)
        return ids

    @cached_property
    def reachable(self) -> NDArray[np.bool_]:
        """(n_states,) whether a start state leads there."""
        seen = np.zeros(self.n_states, dtype=bool)
        front = np.unique(np.array(self.starts))
        while front.size:
            seen[front] = True
            after = self.successor[front]
            front = np.unique(after[after >= 0])
            front = front[~seen[front]]
        return seen

    @cached_property
    def class_of(self) -> NDArray[np.int32]:
        """(n_states,) class ids without gaps for the reachable states, in state-id order; -1 else."""
        order = np.argsort(self.state_id)
        order = order[self.reachable[order]]
        classes = np.full(self.n_states, -1, dtype=np.int32)
        classes[order] = np.arange(len(order))
        return classes

    @cached_property
    def distance_to_end(self) -> NDArray[np.int64]:
        """(n_states,) transitions on the shortest way to the end; n_states where there is none."""
        distance = np.full(self.n_states + 1, self.n_states, dtype=np.int64)
        better: NDArray[np.int64]
        distance[self.end] = 0
        while True:  # successor -1 reads the sentinel in the last place
            better = np.minimum(distance[:-1], distance[self.successor].min(axis=1) + 1)
            if np.array_equal(better, distance[:-1]):
                return better
            distance[:-1] = better

    @cached_property
    def topological_entropy(self) -> float:
        """Logarithm (nats) of the greatest eigenvalue of the transition graph in which the end leads
        to the starts: the growth rate of the number of sequences (Bollt and Jones 2000)."""
        graph = np.zeros((self.n_states, self.n_states))
        sources, symbols = np.nonzero(self.successor >= 0)
        graph[sources, self.successor[sources, symbols]] = 1.0
        graph[self.end, list(self.starts)] = 1.0
        return float(np.log(_spectral_radius(graph)))

    @cached_property
    def digest(self) -> str:
        """Eighteen bytes in hexadecimal that stand for the whole content."""
        hasher = hashlib.blake2b(
            repr((self.states, self.symbols, self.starts)).encode(), digest_size=18
        )
        for array in (self.symbol_of, self.successor, self.chance):
            hasher.update(np.ascontiguousarray(array).tobytes())
        return hasher.hexdigest()

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Grammar) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __str__(self) -> str:
        plural = "s" if len(self.starts) > 1 else ""
        return (
            f"Grammar: {self.n_states} states, {self.n_symbols} symbols, {self.n_transitions} "
            f"transitions, {len(self.starts)} start{plural}, "
            f"topological entropy {self.topological_entropy:.4f} nats"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, from which ``from_dict`` makes an equal grammar."""
        emitted = {state: self.symbols[self.symbol_of[i]] for i, state in enumerate(self.states)}
        return {
            "states": list(self.states),
            "symbols": list(self.symbols),
            "emits": emitted,
            "starts": [self.states[i] for i in self.starts],
            "transitions": [list(transition) for transition in self.transitions],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Grammar:
        """The grammar of ``to_dict``; UsageError when a key is missing or a name unknown."""
        from selectivbench.grammar.custom import assemble

        missing = {"states", "symbols", "emits", "starts", "transitions"} - set(content)
        if missing:
            raise UsageError(
                explain("grammar file", f"no {', '.join(sorted(missing))}", "all five keys")
            )
        return assemble(**{key: content[key] for key in content}, dead_ends=True)


def _spectral_radius(matrix: NDArray[np.float64]) -> float:
    """Perron root of a nonnegative matrix, from its bounds under power iteration (Collatz 1942).

    The bounds are those of a strongly connected graph; one that is not goes to the dense solver.
    """
    vector = np.ones(len(matrix))
    for _ in range(2000):
        image = matrix @ vector + vector  # the shift keeps a periodic graph from oscillating
        live = vector > 1e-280
        ratio = image[live] / vector[live]
        if ratio.max() - ratio.min() < 1e-13 * ratio.max():
            return float(ratio.mean() - 1.0)
        vector = image / image.max()
    return float(np.abs(np.linalg.eigvals(matrix)).max())
