"""The gated linear recurrence, plain and with the delta rule: forward and backward kernels.

One matrix state S of K keys by V values per sequence and head:

    S~ = exp(g) S                  g is a number per head, or one per head and key
    u  = v                         plain (linear attention, RetNet, GLA, HGRN2, Mamba-2)
    u  = beta (v - S~^T k)         delta rule (DeltaNet, GatedDeltaNet, KDA, DeltaProduct)
    S  = S~ + k u^T
    o  = scale S^T q

The forward pass keeps sixteen columns of S in vectors, for columns never meet. The backward pass
keeps rows of its transpose instead, because three of its four sums run over the values. It needs
S~ at every step; the forward pass saves S every CHUNK steps and the backward pass rebuilds the
steps between, so memory grows by K x V / CHUNK a step, and nothing is divided by a decay.

All arrays are contiguous, (B, T, heads, width); `dims` is (T, G, H, K, V): H value heads share
G query/key heads. `decay` is exp(g), read at `row * gate[0] + key * gate[1]`, so that one compiled
kernel serves a missing gate (0, 0), one number per head (1, 0), and one per key (K, 1).
"""

from __future__ import annotations

import numpy as np

from selectivbench.fla_cpu.compiling import Array, kernel
from selectivbench.fla_cpu.simd import at, load, load_n, splat, store, store_n
from selectivbench.fla_cpu.simd_functions import exp

CHUNK = 16
Dims = tuple[int, int, int, int, int]


@kernel
def exponentials(first: int, last: int, g: Array, out: Array) -> None:
    """`out = exp(g)` for blocks `first..last` of 4096 values."""
    end = min(4096 * last, g.size)
    for i in range(4096 * first, end, 16):
        store_n(out, i, exp(load_n(g, i, end - i)), end - i)


@kernel
def forward_plain(  # noqa: C901  (a kernel)
    first: int,
    last: int,
    dims: Dims,
    q: Array,
    k: Array,
    v: Array,
    decay: Array,
    gate: tuple[int, int],
    scale: float,
    state: Array,
    saved: Array,
    o: Array,
) -> None:
    """Value heads `first..last` of (B, H), four steps at a time while a row of S is in a register.

    `state` (B, H, K, V) is read and overwritten; `saved`, where not empty, gets it before every
    chunk. CHUNK is a multiple of four.
    """
    T, G, H, K, V = dims
    keep = saved.size > 0
    S = np.empty(16 * K, v.dtype)
    kx, wx, wk = G * K, H * gate[0], gate[1]
    for item in range(first, last):
        b, h = item // H, item % H
        for lo in range(0, V, 16):
            n = V - lo
            for i in range(K):
                store(S, 16 * i, load_n(state, (item * K + i) * V + lo, n))
            for t in range(0, T, 4):
                row = (b * T + t) * H + h
                x = ((b * T + t) * G + h * G // H) * K
                w = row * gate[0]
                if keep and t % CHUNK == 0:
                    base = (item * ((T + CHUNK - 1) // CHUNK) + t // CHUNK) * K * V + lo
                    for i in range(K):
                        store_n(saved, base + i * V, load(S, 16 * i), n)
                if t + 4 > T:
                    for r in range(T - t):
                        u0 = load_n(v, (row + r * H) * V + lo, n)
                        o0 = splat(v, 0.0)
                        for i in range(K):
                            s0 = load(S, 16 * i) * at(decay, w + i * wk) + u0 * at(k, x + i)
                            store(S, 16 * i, s0)
                            o0 = o0 + s0 * at(q, x + i)
                        store_n(o, (row + r * H) * V + lo, o0 * scale, n)
                        x += kx
                        w += wx
                    continue
                u0 = load_n(v, row * V + lo, n)
                u1 = load_n(v, (row + H) * V + lo, n)
                u2 = load_n(v, (row + 2 * H) * V + lo, n)
                u3 = load_n(v, (row + 3 * H) * V + lo, n)
                o0 = splat(v, 0.0)
                o1 = splat(v, 0.0)
                o2 = splat(v, 0.0)
                o3 = splat(v, 0.0)
                for i in range(K):
                    y, z = x + i, w + i * wk
                    s = load(S, 16 * i) * at(decay, z) + u0 * at(k, y)
                    o0 = o0 + s * at(q, y)
                    s = s * at(decay, z + wx) + u1 * at(k, y + kx)
                    o1 = o1 + s * at(q, y + kx)
                    s = s * at(decay, z + 2 * wx) + u2 * at(k, y + 2 * kx)
                    o2 = o2 + s * at(q, y + 2 * kx)
                    s = s * at(decay, z + 3 * wx) + u3 * at(k, y + 3 * kx)
                    o3 = o3 + s * at(q, y + 3 * kx)
                    store(S, 16 * i, s)
                store_n(o, row * V + lo, o0 * scale, n)
                store_n(o, (row + H) * V + lo, o1 * scale, n)
                store_n(o, (row + 2 * H) * V + lo, o2 * scale, n)
                store_n(o, (row + 3 * H) * V + lo, o3 * scale, n)
            for i in range(K):
                store_n(state, (item * K + i) * V + lo, load(S, 16 * i), n)


@kernel
def forward_delta(  # noqa: C901  (a kernel)
    first: int,
    last: int,
    dims: Dims,
    q: Array,
    k: Array,
    v: Array,
    decay: Array,
    gate: tuple[int, int],
    beta: Array,
    scale: float,
    state: Array,
    saved: Array,
    rest: Array,
    o: Array,
) -> None:
    """The same with the delta rule; `rest` gets v - S~^T k where `saved` is not empty."""
    T, G, H, K, V = dims
    keep = saved.size > 0
    even, wk = K // 2 * 2, gate[1]
    S = np.empty(16 * K, v.dtype)
    for item in range(first, last):
        b, h = item // H, item % H
        for lo in range(0, V, 16):
            n = V - lo
            for i in range(K):
                store(S, 16 * i, load_n(state, (item * K + i) * V + lo, n))
            for t in range(T):
                row = (b * T + t) * H + h
                x = ((b * T + t) * G + h * G // H) * K
                w = row * gate[0]
                if keep and t % CHUNK == 0:
                    base = (item * ((T + CHUNK - 1) // CHUNK) + t // CHUNK) * K * V + lo
                    for i in range(K):
                        store_n(saved, base + i * V, load(S, 16 * i), n)
                # Two accumulators, here and below: one would wait for its own last addition.
                p0 = splat(v, 0.0)
                p1 = splat(v, 0.0)
                if wk == 0:
                    for i in range(0, even, 2):
                        p0 = p0 + load(S, 16 * i) * at(k, x + i)
                        p1 = p1 + load(S, 16 * i + 16) * at(k, x + i + 1)
                    for i in range(even, K):
                        p0 = p0 + load(S, 16 * i) * at(k, x + i)
                    p0 = (p0 + p1) * at(decay, w)
                else:
                    for i in range(0, even, 2):
                        p0 = p0 + load(S, 16 * i) * at(decay, w + i) * at(k, x + i)
                        p1 = p1 + load(S, 16 * i + 16) * at(decay, w + i + 1) * at(k, x + i + 1)
                    for i in range(even, K):
                        p0 = p0 + load(S, 16 * i) * at(decay, w + i) * at(k, x + i)
                    p0 = p0 + p1
                u = load_n(v, row * V + lo, n) - p0
                if keep:
                    store_n(rest, row * V + lo, u, n)
                u = u * at(beta, row)
                o0 = splat(v, 0.0)
                o1 = splat(v, 0.0)
                for i in range(0, even, 2):
                    s0 = load(S, 16 * i) * at(decay, w + i * wk) + u * at(k, x + i)
                    s1 = load(S, 16 * i + 16) * at(decay, w + i * wk + wk) + u * at(k, x + i + 1)
                    store(S, 16 * i, s0)
                    store(S, 16 * i + 16, s1)
                    o0 = o0 + s0 * at(q, x + i)
                    o1 = o1 + s1 * at(q, x + i + 1)
                for i in range(even, K):
                    s0 = load(S, 16 * i) * at(decay, w + i * wk) + u * at(k, x + i)
                    store(S, 16 * i, s0)
                    o0 = o0 + s0 * at(q, x + i)
                store_n(o, row * V + lo, (o0 + o1) * scale, n)
            for i in range(K):
                store_n(state, (item * K + i) * V + lo, load(S, 16 * i), n)
