"""Exact causal filters over the hidden states of a grammar."""

from __future__ import annotations

import numpy as np

from selectivbench.kernels.bits import jit

CAPACITY = 8192
"""Hypotheses held at once; a few dozen occur, since a symbol leaves each at most one successor."""


@jit
def merge(table, weight, size, state, room, index, flag, extra):
    """Add a weight to a hypothesis, which may be new; the number of hypotheses."""
    if extra <= 0.0:
        return size
    for i in range(size):
        same = table[i, 0] == state and table[i, 1] == room
        if same and table[i, 2] == index and table[i, 3] == flag:
            weight[i] += extra
            return size
    table[size, 0], table[size, 1], table[size, 2], table[size, 3] = state, room, index, flag
    weight[size] = extra
    return size + 1


@jit
def continuation(rules, starts, survive, state, room, symbol, child):
    """(next state, odds of it) when a symbol follows grammatically; ``child`` numbers the starts."""
    successor, chance, symbol_of = rules
    if successor[state, 0] == -2:  # the end state: a new string begins
        if child >= len(starts) or symbol_of[starts[child]] != symbol:
            return -1, 0.0
        return starts[child], survive[len(survive) - 1, starts[child]]
    after = successor[state, symbol]
    if child > 0 or after < 0 or room < 1:
        return -1, 0.0
    return after, chance[state, symbol] * survive[room - 1, after] / survive[room, state]


@jit
def extend(rules, starts, start_mass, survive, noise, old, mass, then, weight, size, symbol):
    """Every hypothesis one token further; how many there are, and their whole weight."""
    foreign, options, probability, onset, length = noise
    kept = 0
    for h in range(size):
        state, room, index, flag = old[h, 0], old[h, 1], old[h, 2], old[h, 3]
        aside = 0.0
        if flag == 0 and index >= onset and options[state] > 0:
            aside = probability
            if foreign[state, symbol]:
                odds = mass[h] * aside / options[state]
                kept = merge(then, weight, kept, state, room, index, 1, odds)
        if index + 1 >= length:
            continue
        fresh = rules[0][state, 0] == -2
        for child in range(len(starts) if fresh else 1):
            after, odds = continuation(rules, starts, survive, state, room, symbol, child)
            left = len(survive) - 1 if fresh else room - 1
            odds *= mass[h] * (1.0 - aside) / (start_mass if fresh else 1.0)
            kept = merge(then, weight, kept, after, left, index + 1, 0, odds)
    return kept, weight[:kept].sum()


@jit
def likeliest(table, weight, size, belief):
    """The state with the greatest marginal weight; ``belief`` is scratch, zero before and after."""
    best, state = 0.0, -1
    for h in range(size):
        belief[table[h, 0]] += weight[h]
    for h in range(size):
        if belief[table[h, 0]] > best:
            best, state = belief[table[h, 0]], table[h, 0]
    for h in range(size):
        belief[table[h, 0]] = 0.0
    return state


@jit
def add_next(rules, starts, start_mass, survive, table, weight, size, out):
    """Add the odds of each next symbol to ``out``."""
    for h in range(size):
        state, room = table[h, 0], table[h, 1]
        fresh = rules[0][state, 0] == -2
        scale = weight[h] / (start_mass if fresh else 1.0)
        for symbol in range(len(out)):
            for child in range(len(starts) if fresh else 1):
                _, odds = continuation(rules, starts, survive, state, room, symbol, child)
                out[symbol] += scale * odds


@jit
def filter_states(tokens, rules, starts, survive, end, noise, want_next):
    """(B, E) int16 likeliest state at each token, and (B, E, n_symbols) odds of the next symbol.

    tokens: (B, E) symbol ids without blanks, negative after the end.
    rules: successor (n_states, n_symbols) with -1 for none and -2 in the end state's row, the
    chance of each, and the symbol of each state. survive: as in ``conditioned_walks``.
    noise: foreign (n_states, n_symbols) bool and its row sums, what a distractor may be; its
    probability; the first element that one may follow; how many elements there are.
    The odds are empty unless ``want_next``. A hypothesis is (state, steps left to the string's
    longest length, element index, is this token a distractor); none is ever dropped.
    """
    successor = rules[0]
    shape = tokens.shape
    guess = np.full(shape, -1, np.int16)
    odds = np.zeros((shape[0] if want_next else 0, shape[1], successor.shape[1]), np.float64)
    start_mass = 0.0
    for s in starts:
        start_mass += survive[len(survive) - 1, s]
    now, then = np.empty((CAPACITY, 4), np.int32), np.empty((CAPACITY, 4), np.int32)
    weight, spare = np.empty(CAPACITY), np.empty(CAPACITY)
    belief = np.zeros(len(successor))
    for row in range(shape[0]):
        size = merge(now, weight, 0, end, 0, -1, 1, 1.0)
        for t in range(shape[1]):
            if tokens[row, t] < 0:
                break
            size, total = extend(
                rules,
                starts,
                start_mass,
                survive,
                noise,
                now,
                weight,
                then,
                spare,
                size,
                tokens[row, t],
            )
            now, then, weight, spare = then, now, spare, weight
            weight[:size] /= total
            guess[row, t] = likeliest(now, weight, size, belief)
            if want_next:
                add_next(rules, starts, start_mass, survive, now, weight, size, odds[row, t])
    return guess, odds


@jit
def spread(rules, flow, opening, state, mass, symbol, out):
    """Add to ``out`` what a state's mass becomes when a symbol follows; how much that is."""
    successor, members, first = rules
    if successor[state, 0] == -2:
        total = 0.0
        for s in members[first[symbol] : first[symbol + 1]]:
            out[s] += mass * opening[s]
            total += mass * opening[s]
        return total
    after = successor[state, symbol]
    if after < 0:
        return 0.0
    out[after] += mass * flow[state, symbol]
    return mass * flow[state, symbol]


@jit
def follow(rules, flow, opening, states, mass, out):
    """Fill ``out``, (n_symbols,), with the odds of what follows states of unnormalised mass."""
    successor, members, first = rules
    for s in states:
        if successor[s, 0] == -2:  # after the end a string begins
            for x in range(len(out)):
                for start in members[first[x] : first[x + 1]]:
                    out[x] += mass[s] * opening[start]
        else:
            out += mass[s] * flow[s]
    out /= out.sum()


@jit
def window_states(tokens, rules, flow, opening, usual, k, want_next):
    """(B, E) int16 likeliest state given the last k tokens alone; if wanted, (B, E, n_symbols) odds
    of the next element's symbol.

    rules: successor (-2 in the end state's row), states ordered by symbol, where each symbol's begin.
    flow: (n_states, n_symbols), the average chance of each successor; opening and usual:
    (n_states,), the first element's states and those of any element. A window that no path
    explains (a distractor stood in it) begins anew at the token that broke it.
    """
    _, members, first = rules
    guess = np.full(tokens.shape, -1, np.int16)
    shape = tokens.shape
    odds = np.zeros((shape[0] if want_next else 0, shape[1], flow.shape[1]), np.float64)
    old, new = np.zeros(len(opening)), np.zeros(len(opening))
    for row in range(tokens.shape[0]):
        for t in range(tokens.shape[1]):
            if tokens[row, t] < 0:
                break
            begin = max(0, t - k + 1)
            here = members[:0]
            for i in range(begin, t + 1):
                before = here
                here = members[first[tokens[row, i]] : first[tokens[row, i] + 1]]
                new[here] = 0.0
                total = 0.0
                for s in before:
                    total += spread(rules, flow, opening, s, old[s], tokens[row, i], new)
                if total == 0.0:
                    prior = opening if t - k + 1 < 0 and i == 0 else usual
                    new[here] = prior[here]
                old, new = new, old
            guess[row, t] = here[np.argmax(old[here])]
            if want_next:
                follow(rules, flow, opening, here, old, odds[row, t])
    return guess, odds
