"""What predictors of known power reach on a grammar: the Bayes filter, windows, no memory, chance.

The filter is exact: it knows the grammar, that a string of more than ``longest`` elements never
occurs, and how distractors are drawn. It sees symbols only; blanks and noise add nothing, since
every symbol can be read off its step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from selectivbench.compiled import kernels
from selectivbench.errors import UsageError, explain
from selectivbench.walks import Walker


@dataclass(frozen=True)
class Distractors:
    """From element ``onset`` on, one foreign symbol follows an element with ``probability``.

    after_end: whether a symbol that begins strings may stand after the end symbol (as published,
    where the end is taken to have no successors) or is grammatical there and so may not.
    """

    probability: float = 0.0
    onset: int = 0
    after_end: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.probability < 1:
            raise UsageError(
                explain("distractor probability", self.probability, "0 or more, below 1")
            )
        if self.onset < 0:
            raise UsageError(explain("distractor onset", self.onset, "an element, 0 or more"))

    def foreign(self, walker: Walker) -> NDArray[np.bool_]:
        """(n_states, n_symbols): which symbols do not follow a state grammatically."""
        grammar = walker.grammar
        table = grammar.successor < 0
        if not self.after_end:
            table[grammar.end, grammar.symbol_of[walker.starts]] = False
        return table


@dataclass(frozen=True)
class Oracle:
    """Predictors for walks of ``length`` elements; all tables are exact, made once when needed."""

    walker: Walker
    length: int
    distractors: Distractors = Distractors()

    def __post_init__(self) -> None:
        if self.length < 2:
            raise UsageError(explain("elements of a walk", self.length, "2 or more"))

    def filter(
        self, tokens: NDArray[np.int16], *, want_next: bool = False
    ) -> tuple[NDArray[np.int16], NDArray[np.float64]]:
        """The Bayes filter on (B, E) symbol ids without blanks, negative after the end.

        Gives the likeliest state index after each token, (B, E), and if wanted the exact odds of
        the next element's symbol, (B, E, n_symbols). Causal: entry t depends on tokens 0..t.
        """
        walker, noise = self.walker, self.distractors
        foreign = noise.foreign(walker)
        settings = (foreign, foreign.sum(axis=1), noise.probability, noise.onset, self.length)
        guess, odds = kernels().filter_states(
            tokens,
            walker.rules,
            walker.starts,
            walker.survive,
            walker.grammar.end,
            settings,
            want_next,
        )
        return guess, odds

    def window(self, tokens: NDArray[np.int16], k: int) -> NDArray[np.int16]:
        """The likeliest state given the last k tokens alone, (B, E); the string's age is unknown."""
        guess, _ = self._window(tokens, k, want_next=False)
        return guess

    def window_next(self, tokens: NDArray[np.int16], k: int) -> NDArray[np.float64]:
        """Odds of the next element's symbol given the last k tokens alone, (B, E, n_symbols)."""
        _, odds = self._window(tokens, k, want_next=True)
        return odds

    def _window(
        self, tokens: NDArray[np.int16], k: int, *, want_next: bool
    ) -> tuple[NDArray[np.int16], NDArray[np.float64]]:
        if k < 1:
            raise UsageError(explain("window", k, "1 token or more"))
        symbol_of = self.walker.grammar.symbol_of
        members = np.argsort(symbol_of, kind="stable")
        first = np.searchsorted(symbol_of[members], np.arange(symbol_of.max() + 2))
        rules = (self.walker.rules[0], members, first)
        usual = self.occupancy.sum(axis=0)
        guess, odds = kernels().window_states(
            tokens, rules, self.flow, self.opening, usual, k, want_next
        )
        return guess, odds

    @cached_property
    def opening(self) -> NDArray[np.float64]:
        """(n_states,): the distribution of a string's first state, given that it ends in time."""
        odds: NDArray[np.float64] = np.zeros(self.walker.grammar.n_states)
        odds[self.walker.starts] = self.walker.survive[-1][self.walker.starts]
        return np.asarray(odds / odds.sum())

    @cached_property
    def ages(self) -> NDArray[np.float64]:
        """(longest, n_states): the probability of being in a state k elements into a string."""
        survive, grammar = self.walker.survive, self.walker.grammar
        table = np.zeros_like(survive)
        table[0] = self.opening
        for age in range(len(survive) - 1):
            moved = table[age][:, None] * self._step(age)
            live = grammar.successor >= 0
            table[age + 1] = np.bincount(grammar.successor[live], moved[live], grammar.n_states)
        return table

    @cached_property
    def begins(self) -> NDArray[np.float64]:
        """(length,): the probability that a string begins at element t (a renewal equation)."""
        ends = self.ages[:, self.walker.grammar.end]
        begins = np.zeros(self.length)
        begins[0] = 1.0
        for t in range(1, self.length):
            reach = min(t, len(ends))
            begins[t] = ends[:reach] @ begins[t - reach : t][::-1]
        return begins

    @cached_property
    def occupancy(self) -> NDArray[np.float64]:
        """(length, n_states): the probability of each state at each element."""
        table = np.zeros((self.length, self.walker.grammar.n_states))
        for age, states in enumerate(self.ages[: self.length]):
            table[age:] += self.begins[: self.length - age, None] * states
        return table

    @cached_property
    def flow(self) -> NDArray[np.float64]:
        """(n_states, n_symbols): the chance of each successor, averaged over the string's age."""
        began = np.cumsum(self.begins)
        total = np.zeros_like(self.walker.grammar.chance)
        mass = np.full(len(total), 1e-300)
        for age in range(min(len(self.ages), self.length) - 1):
            here = began[self.length - 2 - age] * self.ages[age]
            total += here[:, None] * self._step(age)
            mass += here
        return np.asarray(total / mass[:, None])

    def _step(self, age: int) -> NDArray[np.float64]:
        """(n_states, n_symbols): the chance of each successor at an age, given ending in time."""
        survive, grammar = self.walker.survive, self.walker.grammar
        room = len(survive) - 1 - age
        after = survive[room - 1][np.maximum(grammar.successor, 0)]
        return np.asarray(grammar.chance * after / np.maximum(survive[room], 1e-300)[:, None])

    @cached_property
    def seen(self) -> NDArray[np.float64]:
        """(n_symbols, n_states): how often a step shows a symbol while the element's state is s,
        in steps a sequence; distractors count as what they look like."""
        grammar, noise = self.walker.grammar, self.distractors
        usual = self.occupancy.sum(axis=0)
        table = np.zeros((grammar.n_symbols, grammar.n_states))
        table[grammar.symbol_of, np.arange(grammar.n_states)] = usual
        foreign = noise.foreign(self.walker)
        late = self.occupancy[noise.onset :].sum(axis=0)
        share = noise.probability * late / np.maximum(foreign.sum(axis=1), 1)
        return np.asarray(table + (foreign * share[:, None]).T)

    def memoryless(self, symbols: NDArray[np.int16]) -> NDArray[np.int64]:
        """The likeliest state given the current symbol alone, whatever the shape of ``symbols``."""
        best: NDArray[np.int64] = self.seen.argmax(axis=1)
        return best[symbols]

    def step_by_step(
        self, symbols: NDArray[np.int16], others: NDArray[np.int16], count: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The likeliest state when each step is seen alone and its posteriors are summed.

        symbols: (B, N), what an element shows; others, count: (B, N), the symbol of the steps after
        it (negative for a blank, which tells how often each state occurs and no more), and how many.
        """
        posterior = np.zeros((len(self.seen) + 1, self.seen.shape[1]))
        posterior[:-1] = self.seen / np.maximum(self.seen.sum(axis=1, keepdims=True), 1e-300)
        posterior[-1] = self.occupancy.mean(axis=0)
        seen = np.stack([a.ravel() for a in (symbols, np.where(count > 0, others, -1), count)])
        cases, where = np.unique(seen, axis=1, return_inverse=True)
        best = [(posterior[a] + n * posterior[b]).argmax() for a, b, n in cases.T]
        return np.array(best)[where.reshape(symbols.shape)]
