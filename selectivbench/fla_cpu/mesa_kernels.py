"""MesaNet's linear systems, (G_t + lambda) x_t = b_t at every step, by conjugate gradients.

    G = exp(g) G + (beta k) k^T        one K x K matrix per sequence and head
    x ~ (G + lambda)^-1 b              a fixed number of iterations from zero, as in fla

A lane is a (sequence, head) pair: sixteen systems are solved at once, and none of their sums
crosses lanes. A sum inside one vector would wait for its own additions, twice in every iteration.
Nothing stops early: EPS makes the last iterations creep instead of converge. The thirtieth still
moves x by 1e-5 of its largest entry, a hundred times the rounding of float32.

All arrays are contiguous, (B, T, H, K); `dims` is (T, H, K) and `decay` is exp(g), (B, T, H).
"""

from __future__ import annotations

import numpy as np

from selectivbench.fla_cpu.compiling import Array, kernel
from selectivbench.fla_cpu.simd import LANES, load, load_n, splat, store, store_n
from selectivbench.fla_cpu.simd_functions import transpose

# fla's kernels add this to both denominators; the results differ visibly without it.
EPS = 1e-5
# Outputs that are summed at a time, so that their additions overlap.
WIDTH = 8
Dims = tuple[int, int, int]


@kernel
def to_lanes(source: Array, width: int, rows: Array, shift: int, out: Array) -> None:
    """Row `rows[lane] + shift` of `source` becomes lane `lane` of `width` vectors of `out`."""
    for i in range(0, width, LANES):
        for lane in range(rows.size):
            row = load_n(source, (rows[lane] + shift) * width + i, width - i)
            store(out, LANES * (i + lane), row)
        for lane in range(rows.size, LANES):
            store(out, LANES * (i + lane), splat(out, 0.0))
        transpose(out, LANES * i)


@kernel
def from_lanes(lanes: Array, width: int, rows: Array, shift: int, out: Array) -> None:
    """The way back: lane `lane` becomes row `rows[lane] + shift` of `out`; `lanes` is lost."""
    for i in range(0, width, LANES):
        transpose(lanes, LANES * i)
        for lane in range(rows.size):
            at = (rows[lane] + shift) * width + i
            store_n(out, at, load(lanes, LANES * (i + lane)), width - i)


@kernel
def grow(G: Array, decay: Array, written: Array, k: Array, K: int, stride: int) -> None:
    """`G = decay G + written k^T` in every lane; a row of G is `stride` vectors."""
    w = load(decay, 0)
    for i in range(K):
        u = load(written, LANES * i)
        for j in range(K):
            at = LANES * (i * stride + j)
            store(G, at, load(G, at) * w + u * load(k, LANES * j))


@kernel
def multiply(G: Array, p: Array, K: int, stride: int, image: Array) -> None:
    """`image = G^T p` in every lane."""
    for j in range(0, LANES * stride, LANES * WIDTH):
        s0 = splat(p, 0.0)
        s1 = splat(p, 0.0)
        s2 = splat(p, 0.0)
        s3 = splat(p, 0.0)
        s4 = splat(p, 0.0)
        s5 = splat(p, 0.0)
        s6 = splat(p, 0.0)
        s7 = splat(p, 0.0)
        for i in range(K):
            at, pi = LANES * stride * i + j, load(p, LANES * i)
            s0 = s0 + load(G, at) * pi
            s1 = s1 + load(G, at + LANES) * pi
            s2 = s2 + load(G, at + 2 * LANES) * pi
            s3 = s3 + load(G, at + 3 * LANES) * pi
            s4 = s4 + load(G, at + 4 * LANES) * pi
            s5 = s5 + load(G, at + 5 * LANES) * pi
            s6 = s6 + load(G, at + 6 * LANES) * pi
            s7 = s7 + load(G, at + 7 * LANES) * pi
        store(image, j, s0)
        store(image, j + LANES, s1)
        store(image, j + 2 * LANES, s2)
        store(image, j + 3 * LANES, s3)
        store(image, j + 4 * LANES, s4)
        store(image, j + 5 * LANES, s5)
        store(image, j + 6 * LANES, s6)
        store(image, j + 7 * LANES, s7)


@kernel
def conjugate_gradients(
    G: Array,
    lamb: Array,
    r: Array,
    K: int,
    stride: int,
    iterations: int,
    x: Array,
    p: Array,
    image: Array,
) -> None:
    """x of (G^T + lambda) x = r in every lane; r is lost, `p` and `image` are scratch."""
    size = splat(x, 0.0)
    for i in range(0, LANES * K, LANES):
        ri = load(r, i)
        store(x, i, splat(x, 0.0))
        store(p, i, ri)
        size = size + ri * ri
    for _ in range(iterations):
        multiply(G, p, K, stride, image)
        curvature = splat(x, 0.0)
        for i in range(0, LANES * K, LANES):
            pi = load(p, i)
            along = load(image, i) + load(lamb, i) * pi
            store(image, i, along)
            curvature = curvature + pi * along
        step = size / (curvature + EPS)
        old, size = size, splat(x, 0.0)
        for i in range(0, LANES * K, LANES):
            store(x, i, load(x, i) + step * load(p, i))
            ri = load(r, i) - step * load(image, i)
            store(r, i, ri)
            size = size + ri * ri
        ratio = size / (old + EPS)
        for i in range(0, LANES * K, LANES):
            store(p, i, load(r, i) + ratio * load(p, i))


@kernel
def solve(
    first: int,
    last: int,
    dims: Dims,
    b: Array,
    k: Array,
    written: Array,
    decay: Array,
    lamb: Array,
    state: Array,
    iterations: int,
    x: Array,
) -> None:
    """Groups `first..last` of LANES pairs; `state` (B, H, K, K) is G before the first step.

    `written` is beta k. G is symmetric, so that G^T in its place is the same.
    """
    T, H, K = dims
    width, stride = (K + LANES - 1) // LANES * LANES, (K + WIDTH - 1) // WIDTH * WIDTH
    for group in range(first, last):
        lanes = np.arange(LANES * group, min(LANES * (group + 1), state.size // (K * K)))
        rows, heads = lanes // H * (T * H) + lanes % H, lanes % H
        G = np.zeros(LANES * stride * stride, b.dtype)
        ls, ks, ws, xs, rs, ps, images, fs = np.zeros((8, LANES * width), b.dtype)
        to_lanes(lamb, K, heads, 0, ls)
        for i in range(K):
            to_lanes(state, K, lanes * K, i, ks)
            for j in range(K):
                store(G, LANES * (i * stride + j), load(ks, LANES * j))
        for t in range(T):
            to_lanes(decay, 1, rows, t * H, fs)
            to_lanes(k, K, rows, t * H, ks)
            to_lanes(written, K, rows, t * H, ws)
            to_lanes(b, K, rows, t * H, rs)
            grow(G, fs, ws, ks, K, stride)
            conjugate_gradients(G, ls, rs, K, stride, iterations, xs, ps, images)
            from_lanes(xs, K, rows, t * H, x)
