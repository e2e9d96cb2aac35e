"""The random transitions of a grammar, bit-equal to NumPy's ``permutation`` and ``random``."""

from __future__ import annotations

import numpy as np

from selectivbench.kernels.bits import ELEVEN, TWO_M53, WORD, ZERO, U, jit, pcg_output, pcg_step


@jit
def fill_raw(words, block, start):
    """Put the next outputs of PCG64 into ``block[start:]``; ``words`` is advanced in place."""
    hi, lo, inc_hi, inc_lo = words[0], words[1], words[2], words[3]
    for i in range(start, len(block)):
        hi, lo = pcg_step(hi, lo, inc_hi, inc_lo)
        block[i] = pcg_output(hi, lo)
    words[0], words[1] = hi, lo


@jit
def first_of_permutation(halves, at, size, picks):
    """The first entry of NumPy's ``permutation(size)``, and where reading stopped.

    Fisher-Yates from the top, each swap drawn by masking 32-bit words and rejecting those too large;
    written without a branch on the rejection, which no processor could predict.
    """
    i = size - 1
    while i > 0:
        top = 1
        while top <= i:
            top <<= 1
        mask, stop = np.uint32(top - 1), (top >> 1)
        while i >= stop:
            word = np.int64(halves[at] & mask)
            picks[i] = word
            at += 1
            i -= np.int64(word <= i)
    place = 0  # undo the swaps: where did the first entry come from?
    for i in range(1, size):
        place = i if picks[i] == place else place
    return place, at


@jit
def draw_edges(words, sizes, thresholds, n_sources):
    """(n_sources, n_symbols) int16: which state of a symbol follows a source, or -1.

    words: PCG64 as (state_hi, state_lo, inc_hi, inc_lo, has_half, half), advanced in place.
    Each pair draws a permutation of the symbol's states, of which the first is taken, and one
    uniform that decides whether the transition exists (facts of the published generator).
    """
    spare = 64 * sizes.max() + 64  # a permutation that reads more has a chance below 2**-1000
    block = np.empty(8192 + spare, np.uint64)
    halves = block.view(np.uint32)
    block[0] = words[5] << WORD
    fill_raw(words, block, 1)
    at = 1 if words[4] != ZERO else 2
    out = np.full((n_sources, len(sizes)), -1, np.int16)
    picks = np.empty(sizes.max() + 1, np.int64)
    filled = len(block)
    for source in range(n_sources):
        for symbol in range(len(sizes)):
            if at + 2 * spare > 2 * filled:
                left = filled - (at >> 1)
                for i in range(left):
                    block[i] = block[(at >> 1) + i]
                at &= 1
                fill_raw(words, block, left)
            place, at = first_of_permutation(halves, at, sizes[symbol], picks)
            word = block[(at + 1) >> 1]  # a double takes a whole word and leaves the spare half
            if at & 1:
                halves[at + 2] = halves[at]
            at += 2
            if (word >> ELEVEN) * TWO_M53 < thresholds[symbol]:
                out[source, symbol] = place
    words[4], words[5] = U(at & 1), U(halves[at | 1])
    words[6] = U(filled - ((at + 1) >> 1))
    return out
