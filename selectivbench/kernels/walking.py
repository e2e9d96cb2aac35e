"""Walks through a grammar, and their layout in time."""

from __future__ import annotations

import numpy as np

from selectivbench.kernels.bits import (
    ELEVEN,
    LOW,
    ONE,
    SIX,
    TWO_M53,
    WORD,
    ZERO,
    U,
    inline,
    jit,
    pcg_output,
    pcg_step,
)


@inline
def pick_start(u, starts, odds):
    """The start state at a uniform, with odds by state."""
    total = 0.0
    for s in starts:
        total += odds[s]
    mark, chosen = u * total, -1
    for s in starts:
        chosen = s if mark >= 0.0 and odds[s] > 0.0 else chosen
        mark -= odds[s]
    return chosen


@inline
def pick_next(mark, begin, stop, target, chance, odds):
    """The successor at which summed odds pass a mark; the last possible one if rounding ate it."""
    chosen = -1
    for i in range(begin, stop):
        weight = chance[i] * odds[target[i]]
        if weight > 0.0:
            chosen = target[i]
            mark -= weight
            if mark < 0.0:
                break
    return chosen


@jit
def conditioned_walks(raw, first, target, chance, starts, survive):
    """(B, N) int16 state walks: strings after each other, each conditioned on ending in time.

    raw: (B, N) uint64, one word for each element.
    first, target, chance: successors by source in compressed rows; starts: equally likely.
    survive: (L, n_states), the probability of reaching the end state within r more steps, so that
    a step has odds ``chance * survive[r - 1, target]`` (Doob's h-transform) and none is rejected.
    """
    out = np.empty(raw.shape, np.int16)
    top = len(survive) - 1
    for row in range(raw.shape[0]):
        state, room = -1, 0
        for t in range(raw.shape[1]):
            u = (raw[row, t] >> ELEVEN) * TWO_M53
            if state < 0 or first[state] == first[state + 1]:  # only the end has no successor
                state, room = pick_start(u, starts, survive[top]), top
            else:
                mark = u * survive[room, state]
                begin, stop = first[state], first[state + 1]
                state = pick_next(mark, begin, stop, target, chance, survive[room - 1])
                room -= 1
            out[row, t] = state
    return out


@inline
def seeded(seeds):
    """PCG64's state (state_hi, state_lo, inc_hi, inc_lo) from the four words of a seed sequence."""
    inc_hi = (seeds[2] << ONE) | (seeds[3] >> SIX)
    inc_lo = (seeds[3] << ONE) | ONE
    lo = inc_lo + seeds[1]
    hi = inc_hi + seeds[0] + (ONE if lo < seeds[1] else ZERO)
    hi, lo = pcg_step(hi, lo, inc_hi, inc_lo)
    return hi, lo, inc_hi, inc_lo


@jit
def bounded(state, half, bound):
    """NumPy's ``integers(bound)``: Lemire's multiplication of a 32-bit word, halves kept back.

    state: as from ``seeded``; half: (has_half, half). All three of the answer, the new state and
    the new half are returned. A bound of one draws nothing.
    """
    hi, lo, inc_hi, inc_lo = state
    full, spare = half
    if bound == ONE:
        return ZERO, state, half
    while True:
        if full:
            full, word = False, spare
        else:
            hi, lo = pcg_step(hi, lo, inc_hi, inc_lo)
            raw = pcg_output(hi, lo)
            full, word, spare = True, raw & LOW, raw >> WORD
        scaled = word * bound
        low = scaled & LOW
        if low >= bound or low >= (LOW - bound + ONE) % bound:
            return scaled >> WORD, (hi, lo, inc_hi, inc_lo), (full, spare)


@inline
def bisect(u, begin, count, cumulative):
    """Where a uniform falls in cumulated chances; the guess is exact when they are equal."""
    i = begin + np.int64(u * count)
    while i > begin and u < cumulative[i - 1]:
        i -= 1
    while i < begin + count - 1 and u >= cumulative[i]:
        i += 1
    return i


@jit
def one_string(string, begin, generator, first, target, cumulative):
    """Walk from a start state into ``string`` until the end or until it is full."""
    hi, lo, inc_hi, inc_lo = generator
    string[0] = state = begin
    size = 1
    while first[state] != first[state + 1] and size < len(string):
        i, count = first[state], first[state + 1] - first[state]
        if count > 1:  # a state with one successor draws nothing
            hi, lo = pcg_step(hi, lo, inc_hi, inc_lo)
            i = bisect((pcg_output(hi, lo) >> ELEVEN) * TWO_M53, i, count, cumulative)
        string[size] = state = target[i]
        size += 1
    return size, (hi, lo, inc_hi, inc_lo)


@jit
def rejected_walks(seeds, first, target, cumulative, starts, bounds, length):
    """(B, length) int16 walks as the published generator makes them.

    seeds: (B, 4) uint64, NumPy's seed sequence of each sample. bounds: shortest and longest string;
    another is thrown away after its draws. A row whose string took over 10,001 attempts is -1.
    """
    out = np.empty((len(seeds), length), np.int16)
    string = np.empty(bounds[1] + 1, np.int16)
    for row in range(len(seeds)):
        generator, half = seeded(seeds[row]), (False, ZERO)
        filled, tries = 0, 0
        while filled < length:
            which, generator, half = bounded(generator, half, U(len(starts)))
            begin = starts[np.int64(which)]
            size, generator = one_string(string, begin, generator, first, target, cumulative)
            tries += 1
            if bounds[0] <= size <= bounds[1]:
                take = min(size, length - filled)
                out[row, filled : filled + take] = string[:take]
                filled, tries = filled + take, 0
            elif tries > 10_001:
                out[row] = -1
                break
    return out


@jit
def lay_out(symbols, classes, gaps, fillers, pad, ignore):
    """Tokens, targets and element ids of (B, N) elements, each followed by its gap.

    fillers: (B, N) int16, the token shown in each gap step of an element.
    """
    steps = 0
    for row in range(len(gaps)):
        steps = max(steps, len(gaps[row]) + gaps[row].sum())
    tokens = np.full((len(gaps), steps), pad, np.int16)
    targets = np.full(tokens.shape, ignore, np.int32)
    element = np.full(tokens.shape, ignore, np.int32)
    for row in range(len(gaps)):
        at = 0
        for i in range(gaps.shape[1]):
            for j in range(gaps[row, i] + 1):
                tokens[row, at] = symbols[row, i] if j == 0 else fillers[row, i]
                targets[row, at] = classes[row, i]
                element[row, at] = i
                at += 1
    return tokens, targets, element
