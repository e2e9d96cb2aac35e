"""The recurrence with a diagonal plus low-rank transition (RWKV-7, Comba): forward and backward.

    p = S^T a
    S = exp(g) S + b p^T + k v^T       g is one number per head and key
    o = scale S^T q

Same layout as in `linear_kernels`, with as many key heads as value heads; `dims` is (T, H, K, V).
"""

from __future__ import annotations

import numpy as np

from selectivbench.fla_cpu.compiling import Array, kernel
from selectivbench.fla_cpu.simd import at, load, load_n, splat, store, store_n
from selectivbench.fla_cpu.simd_functions import totals4

CHUNK = 16
Dims = tuple[int, int, int, int]


@kernel
def forward(  # noqa: C901  (a kernel)
    first: int,
    last: int,
    dims: Dims,
    q: Array,
    k: Array,
    v: Array,
    a: Array,
    b: Array,
    decay: Array,
    scale: float,
    state: Array,
    saved: Array,
    read: Array,
    o: Array,
) -> None:
    """Heads `first..last` of (B, H). Where `saved` is not empty, `read` gets p."""
    T, H, K, V = dims
    keep = saved.size > 0
    S = np.empty(16 * K, v.dtype)
    for item in range(first, last):
        n, h = item // H, item % H
        for lo in range(0, V, 16):
            width = V - lo
            for i in range(K):
                store(S, 16 * i, load_n(state, (item * K + i) * V + lo, width))
            for t in range(T):
                row = (n * T + t) * H + h
                x = row * K
                if keep and t % CHUNK == 0:
                    base = (item * ((T + CHUNK - 1) // CHUNK) + t // CHUNK) * K * V + lo
                    for i in range(K):
                        store_n(saved, base + i * V, load(S, 16 * i), width)
                vv = load_n(v, row * V + lo, width)
                p0 = splat(v, 0.0)
                p1 = splat(v, 0.0)
                for i in range(0, K - 1, 2):
                    p0 = p0 + load(S, 16 * i) * at(a, x + i)
                    p1 = p1 + load(S, 16 * i + 16) * at(a, x + i + 1)
                if K % 2:
                    p0 = p0 + load(S, 16 * K - 16) * at(a, x + K - 1)
                p = p0 + p1
                if keep:
                    store_n(read, row * V + lo, p, width)
                o0 = splat(v, 0.0)
                o1 = splat(v, 0.0)
                for i in range(0, K - 1, 2):
                    y, z = x + i, 16 * i
                    s0 = load(S, z) * at(decay, y) + p * at(b, y) + vv * at(k, y)
                    y += 1
                    s1 = load(S, z + 16) * at(decay, y) + p * at(b, y) + vv * at(k, y)
                    store(S, z, s0)
                    store(S, z + 16, s1)
                    o0 = o0 + s0 * at(q, y - 1)
                    o1 = o1 + s1 * at(q, y)
                if K % 2:
                    y, z = x + K - 1, 16 * K - 16
                    s0 = load(S, z) * at(decay, y) + p * at(b, y) + vv * at(k, y)
                    store(S, z, s0)
                    o0 = o0 + s0 * at(q, y)
                store_n(o, row * V + lo, (o0 + o1) * scale, width)
            for i in range(K):
                store_n(state, (item * K + i) * V + lo, load(S, 16 * i), width)


@kernel
def backward(  # noqa: C901  (one pass over a chunk; cutting it up would pass fifteen arrays around)
    first: int,
    last: int,
    dims: Dims,
    q: Array,
    k: Array,
    v: Array,
    a: Array,
    b: Array,
    decay: Array,
    scale: float,
    saved: Array,
    read: Array,
    do: Array,
    dstate: Array,
    dq: Array,
    dk: Array,
    dv: Array,
    da: Array,
    db: Array,
    dg: Array,
) -> None:
    """Heads `first..last`; `dstate` comes as the last state's gradient, leaves as the first's."""
    T, H, K, V = dims
    KP, VP = (K + 15) // 16 * 16, (V + 15) // 16 * 16
    chunks = (T + CHUNK - 1) // CHUNK
    # Per step of a chunk and vector of keys: q k a b w, and the sums dk da db dg, and S e.
    given, sums = np.zeros(CHUNK * 5 * KP, v.dtype), np.zeros(CHUNK * 5 * KP, v.dtype)
    vs, ps, es = (
        np.zeros(CHUNK * VP, v.dtype),
        np.zeros(CHUNK * VP, v.dtype),
        np.zeros(CHUNK * VP, v.dtype),
    )
    dvs = np.zeros(CHUNK * VP, v.dtype)
    ves, pes = np.zeros(CHUNK, v.dtype), np.zeros(CHUNK, v.dtype)
    before = np.zeros(CHUNK * 4 * KP, v.dtype)
    dS, start = np.zeros(VP * KP, v.dtype), np.zeros(VP * KP, v.dtype)
    for item in range(first, last):
        n, h = item // H, item % H
        for i in range(K):
            for j in range(V):
                dS[j * KP + i] = dstate[(item * K + i) * V + j]
        for c in range(chunks - 1, -1, -1):
            steps = min(CHUNK, T - c * CHUNK)
            base = (item * chunks + c) * K * V
            for i in range(K):
                for j in range(V):
                    start[j * KP + i] = at(saved, base + i * V + j)
            for t in range(steps):
                row = (n * T + c * CHUNK + t) * H + h
                x, y = row * K, 5 * t * KP
                for i in range(0, K, 16):
                    store(given, y + i, load_n(q, x + i, K - i) * scale)
                    store(given, y + KP + i, load_n(k, x + i, K - i))
                    store(given, y + 2 * KP + i, load_n(a, x + i, K - i))
                    store(given, y + 3 * KP + i, load_n(b, x + i, K - i))
                    store(given, y + 4 * KP + i, load_n(decay, x + i, K - i))
                for j in range(0, V, 16):
                    store(vs, t * VP + j, load_n(v, row * V + j, V - j))
                    store(ps, t * VP + j, load_n(read, row * V + j, V - j))
                    store(es, t * VP + j, load_n(do, row * V + j, V - j))
            sums[:] = 0.0
            ves[:] = 0.0
            pes[:] = 0.0
            for j in range(0, V, 4):
                for i in range(0, KP, 16):
                    s0 = load(start, j * KP + i)
                    s1 = load(start, (j + 1) * KP + i)
                    s2 = load(start, (j + 2) * KP + i)
                    s3 = load(start, (j + 3) * KP + i)
                    for t in range(steps):
                        y, z, at4 = 5 * t * KP + i, t * VP + j, 4 * (t * KP + i)
                        kv, bv, wv = (
                            load(given, y + KP),
                            load(given, y + 3 * KP),
                            load(given, y + 4 * KP),
                        )
                        store(before, at4, s0)
                        store(before, at4 + 16, s1)
                        store(before, at4 + 32, s2)
                        store(before, at4 + 48, s3)
                        s0 = s0 * wv + bv * at(ps, z) + kv * at(vs, z)
                        s1 = s1 * wv + bv * at(ps, z + 1) + kv * at(vs, z + 1)
                        s2 = s2 * wv + bv * at(ps, z + 2) + kv * at(vs, z + 2)
                        s3 = s3 * wv + bv * at(ps, z + 3) + kv * at(vs, z + 3)
                for t in range(steps - 1, -1, -1):
                    z = t * VP + j
                    e0, e1, e2, e3 = at(es, z), at(es, z + 1), at(es, z + 2), at(es, z + 3)
                    v0, v1, v2, v3 = at(vs, z), at(vs, z + 1), at(vs, z + 2), at(vs, z + 3)
                    p0, p1, p2, p3 = at(ps, z), at(ps, z + 1), at(ps, z + 2), at(ps, z + 3)
                    x0 = splat(v, 0.0)
                    x1 = splat(v, 0.0)
                    x2 = splat(v, 0.0)
                    x3 = splat(v, 0.0)
                    y0 = splat(v, 0.0)
                    y1 = splat(v, 0.0)
                    y2 = splat(v, 0.0)
                    y3 = splat(v, 0.0)
                    for i in range(0, KP, 16):
                        y = 5 * t * KP + i
                        qv, kv, bv = load(given, y), load(given, y + KP), load(given, y + 3 * KP)
                        d0 = load(dS, j * KP + i) + qv * e0
                        d1 = load(dS, (j + 1) * KP + i) + qv * e1
                        d2 = load(dS, (j + 2) * KP + i) + qv * e2
                        d3 = load(dS, (j + 3) * KP + i) + qv * e3
                        store(dS, j * KP + i, d0)
                        store(dS, (j + 1) * KP + i, d1)
                        store(dS, (j + 2) * KP + i, d2)
                        store(dS, (j + 3) * KP + i, d3)
                        x0, x1, x2, x3 = x0 + d0 * kv, x1 + d1 * kv, x2 + d2 * kv, x3 + d3 * kv
                        y0, y1, y2, y3 = y0 + d0 * bv, y1 + d1 * bv, y2 + d2 * bv, y3 + d3 * bv
                    dvs[z], dvs[z + 1], dvs[z + 2], dvs[z + 3] = totals4((x0, x1, x2, x3))
                    c0, c1, c2, c3 = totals4((y0, y1, y2, y3))
                    ves[t] += v0 * e0 + v1 * e1 + v2 * e2 + v3 * e3
                    pes[t] += p0 * e0 + p1 * e1 + p2 * e2 + p3 * e3
                    for i in range(0, KP, 16):
                        y, at4 = 5 * t * KP + i, 4 * (t * KP + i)
                        av, wv = load(given, y + 2 * KP), load(given, y + 4 * KP)
                        s0, s1 = load(before, at4), load(before, at4 + 16)
                        s2, s3 = load(before, at4 + 32), load(before, at4 + 48)
                        d0, d1 = load(dS, j * KP + i), load(dS, (j + 1) * KP + i)
                        d2, d3 = load(dS, (j + 2) * KP + i), load(dS, (j + 3) * KP + i)
                        store(sums, y, load(sums, y) + d0 * v0 + d1 * v1 + d2 * v2 + d3 * v3)
                        y += KP
                        store(sums, y, load(sums, y) + s0 * c0 + s1 * c1 + s2 * c2 + s3 * c3)
                        y += KP
                        store(sums, y, load(sums, y) + d0 * p0 + d1 * p1 + d2 * p2 + d3 * p3)
                        y += KP
                        d0, d1, d2, d3 = d0 * wv, d1 * wv, d2 * wv, d3 * wv
                        store(sums, y, load(sums, y) + s0 * d0 + s1 * d1 + s2 * d2 + s3 * d3)
                        y += KP
                        store(sums, y, load(sums, y) + s0 * e0 + s1 * e1 + s2 * e2 + s3 * e3)
                        store(dS, j * KP + i, d0 + av * c0)
                        store(dS, (j + 1) * KP + i, d1 + av * c1)
                        store(dS, (j + 2) * KP + i, d2 + av * c2)
                        store(dS, (j + 3) * KP + i, d3 + av * c3)
            for t in range(steps):
                row = (n * T + c * CHUNK + t) * H + h
                x, y = row * K, 5 * t * KP
                for i in range(K):
                    dk[x + i] = sums[y + i]
                    da[x + i] = sums[y + KP + i]
                    db[x + i] = sums[y + 2 * KP + i]
                    dg[x + i] = sums[y + 3 * KP + i]
                    old = given[y + 4 * KP + i] * sums[y + 4 * KP + i]
                    new = given[y + 3 * KP + i] * pes[t] + given[y + KP + i] * ves[t]
                    dq[x + i] = (old + new) * scale
                for j in range(V):
                    dv[row * V + j] = dvs[t * VP + j]
        for i in range(K):
            for j in range(V):
                dstate[(item * K + i) * V + j] = dS[j * KP + i]
