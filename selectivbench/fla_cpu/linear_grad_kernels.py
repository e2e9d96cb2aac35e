"""The gated linear recurrence, backward: see `linear_kernels` for what is computed and how.

dS  = dS + scale q do^T            from the steps after, and this step's output
du  = dS^T k,   dv = beta du       with the delta rule du also leaves through S~:
dS~ = dS - k (beta du)^T
dk  = dS u - S~ (beta du),   dq = scale S do,   dg = sum over values of dS~ S~
dS  = exp(g) dS~                   for the step before
"""

from __future__ import annotations

import numpy as np

from selectivbench.fla_cpu.compiling import Array, kernel
from selectivbench.fla_cpu.linear_kernels import CHUNK, Dims
from selectivbench.fla_cpu.simd import at, load, load_n, splat, store, store_n
from selectivbench.fla_cpu.simd_functions import total, totals4


@kernel
def backward(  # noqa: C901  (a kernel)
    first: int,
    last: int,
    dims: Dims,
    q: Array,
    k: Array,
    v: Array,
    decay: Array,
    gate: tuple[int, int],
    beta: Array | None,
    scale: float,
    saved: Array,
    rest: Array,
    do: Array,
    dstate: Array,
    dq: Array,
    dk: Array,
    dv: Array,
    dg: Array,
    dbeta: Array | None,
) -> None:
    """Query heads `first..last` of (B, G), each with its H / G value heads.

    `dstate` holds the gradient of the last state and is overwritten by that of the first one;
    `dq`, `dk`, `dg` and `dbeta` must come zeroed; without beta, `rest` is v.
    """
    T, G, H, K, V = dims
    KP, VP = (K + 15) // 16 * 16, (V + 15) // 16 * 16
    chunks = (T + CHUNK - 1) // CHUNK
    # One chunk of everything, the keys padded with zeros to whole vectors.
    qs, ks, ws = (
        np.zeros(CHUNK * KP, v.dtype),
        np.zeros(CHUNK * KP, v.dtype),
        np.zeros(CHUNK * KP, v.dtype),
    )
    dqs, dks, dgs = (
        np.zeros(CHUNK * KP, v.dtype),
        np.zeros(CHUNK * KP, v.dtype),
        np.zeros(CHUNK * KP, v.dtype),
    )
    us, dos = np.zeros(CHUNK * VP, v.dtype), np.zeros(CHUNK * VP, v.dtype)
    rs, dvs = np.zeros(CHUNK * VP, v.dtype), np.zeros(CHUNK * VP, v.dtype)
    bs, dbs, uds = np.ones(CHUNK, v.dtype), np.zeros(CHUNK, v.dtype), np.zeros(CHUNK, v.dtype)
    decayed = np.zeros(CHUNK * 4 * KP, v.dtype)
    dS, start = np.zeros(VP * KP, v.dtype), np.zeros(VP * KP, v.dtype)
    for item in range(first * (H // G), last * (H // G)):
        b, h = item // H, item % H
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
                row = (b * T + c * CHUNK + t) * H + h
                x = ((b * T + c * CHUNK + t) * G + h * G // H) * K
                if beta is not None:
                    bs[t] = at(beta, row)
                for i in range(0, K, 16):
                    store(qs, t * KP + i, load_n(q, x + i, K - i) * scale)
                    store(ks, t * KP + i, load_n(k, x + i, K - i))
                    w = row * gate[0] + i
                    wv = load_n(decay, w, K - i) if gate[1] else splat(v, at(decay, row * gate[0]))
                    store(ws, t * KP + i, wv)
                for j in range(0, V, 16):
                    r = load_n(rest, row * V + j, V - j)
                    store(rs, t * VP + j, r)
                    store(us, t * VP + j, r * bs[t])
                    store(dos, t * VP + j, load_n(do, row * V + j, V - j))
            dqs[:] = 0.0
            dks[:] = 0.0
            dgs[:] = 0.0
            dbs[:] = 0.0
            uds[:] = 0.0
            for j in range(0, V, 4):
                for i in range(0, KP, 16):
                    s0 = load(start, j * KP + i)
                    s1 = load(start, (j + 1) * KP + i)
                    s2 = load(start, (j + 2) * KP + i)
                    s3 = load(start, (j + 3) * KP + i)
                    for t in range(steps):
                        wv, kv = load(ws, t * KP + i), load(ks, t * KP + i)
                        s0, s1, s2, s3 = s0 * wv, s1 * wv, s2 * wv, s3 * wv
                        at4 = 4 * (t * KP + i)
                        store(decayed, at4, s0)
                        store(decayed, at4 + 16, s1)
                        store(decayed, at4 + 32, s2)
                        store(decayed, at4 + 48, s3)
                        s0 = s0 + kv * at(us, t * VP + j)
                        s1 = s1 + kv * at(us, t * VP + j + 1)
                        s2 = s2 + kv * at(us, t * VP + j + 2)
                        s3 = s3 + kv * at(us, t * VP + j + 3)
                for t in range(steps - 1, -1, -1):
                    y = t * VP + j
                    e0, e1, e2, e3 = at(dos, y), at(dos, y + 1), at(dos, y + 2), at(dos, y + 3)
                    u0, u1, u2, u3 = at(us, y), at(us, y + 1), at(us, y + 2), at(us, y + 3)
                    a0 = splat(v, 0.0)
                    a1 = splat(v, 0.0)
                    a2 = splat(v, 0.0)
                    a3 = splat(v, 0.0)
                    for i in range(0, KP, 16):
                        qv, kv = load(qs, t * KP + i), load(ks, t * KP + i)
                        d0 = load(dS, j * KP + i) + qv * e0
                        d1 = load(dS, (j + 1) * KP + i) + qv * e1
                        d2 = load(dS, (j + 2) * KP + i) + qv * e2
                        d3 = load(dS, (j + 3) * KP + i) + qv * e3
                        store(dS, j * KP + i, d0)
                        store(dS, (j + 1) * KP + i, d1)
                        store(dS, (j + 2) * KP + i, d2)
                        store(dS, (j + 3) * KP + i, d3)
                        a0, a1, a2, a3 = a0 + d0 * kv, a1 + d1 * kv, a2 + d2 * kv, a3 + d3 * kv
                    du0, du1, du2, du3 = totals4((a0, a1, a2, a3))
                    uds[t] += u0 * e0 + u1 * e1 + u2 * e2 + u3 * e3
                    if beta is not None:
                        dbs[t] += du0 * rs[y] + du1 * rs[y + 1] + du2 * rs[y + 2] + du3 * rs[y + 3]
                        du0, du1, du2, du3 = du0 * bs[t], du1 * bs[t], du2 * bs[t], du3 * bs[t]
                    dvs[y], dvs[y + 1], dvs[y + 2], dvs[y + 3] = du0, du1, du2, du3
                    for i in range(0, KP, 16):
                        x, at4 = t * KP + i, 4 * (t * KP + i)
                        kv, wv = load(ks, x), load(ws, x)
                        s0, s1 = load(decayed, at4), load(decayed, at4 + 16)
                        s2, s3 = load(decayed, at4 + 32), load(decayed, at4 + 48)
                        d0, d1 = load(dS, j * KP + i), load(dS, (j + 1) * KP + i)
                        d2, d3 = load(dS, (j + 2) * KP + i), load(dS, (j + 3) * KP + i)
                        dkv = load(dks, x) + d0 * u0 + d1 * u1 + d2 * u2 + d3 * u3
                        if beta is not None:
                            dkv = dkv - s0 * du0 - s1 * du1 - s2 * du2 - s3 * du3
                            d0, d1 = d0 - kv * du0, d1 - kv * du1
                            d2, d3 = d2 - kv * du2, d3 - kv * du3
                        store(dks, x, dkv)
                        store(dqs, x, load(dqs, x) + s0 * e0 + s1 * e1 + s2 * e2 + s3 * e3)
                        store(dgs, x, load(dgs, x) + s0 * d0 + s1 * d1 + s2 * d2 + s3 * d3)
                        store(dS, j * KP + i, d0 * wv)
                        store(dS, (j + 1) * KP + i, d1 * wv)
                        store(dS, (j + 2) * KP + i, d2 * wv)
                        store(dS, (j + 3) * KP + i, d3 * wv)
            for t in range(steps):
                row = (b * T + c * CHUNK + t) * H + h
                x = ((b * T + c * CHUNK + t) * G + h * G // H) * K
                if dbeta is not None:
                    dbeta[row] = dbs[t]
                for i in range(0, K, 16):
                    y, n = t * KP + i, K - i
                    dqv = (load(dqs, y) + load(ks, y) * uds[t]) * scale
                    store_n(dq, x + i, load_n(dq, x + i, n) + dqv, n)
                    store_n(dk, x + i, load_n(dk, x + i, n) + load(dks, y), n)
                    if gate[1] > 0:
                        store_n(dg, row * K + i, load(dgs, y), n)
                    elif gate[0] > 0:
                        dg[row] += total(load(dgs, y))
                for j in range(0, V, 16):
                    store_n(dv, row * V + j, load(dvs, t * VP + j), V - j)
        for i in range(K):
            for j in range(V):
                dstate[(item * K + i) * V + j] = dS[j * KP + i]
