"""Causal softmax attention with forget gates and a window: forward and backward kernels.

    s_ij = scale q_i k_j + g_i - g_j     for i - window < j <= i
    o_i  = sum over j of softmax(s_i)_j v_j

Sixteen keys are the lanes. A row of scores is kept, never the T x T matrix: the backward pass
recomputes a row from the saved logarithm of its sum. `dims` is (T, H, G, K, V): H query heads share
G key heads; arrays are (B, T, heads, width), g and lse (B, T, H).
"""

from __future__ import annotations

import math

import numpy as np

from selectivbench.fla_cpu.compiling import Array, kernel
from selectivbench.fla_cpu.simd import at, first_n, larger, load, splat, store, store_n
from selectivbench.fla_cpu.simd_functions import exp, largest, total

Dims = tuple[int, int, int, int, int]


@kernel
def _transposed(
    source: Array, base: int, stride: int, T: int, width: int, TP: int, out: Array
) -> None:
    """`out[d, t]` = row t of one head, with rows of TP numbers; what pads a row stays zero."""
    for t in range(T):
        for d in range(width):
            out[d * TP + t] = at(source, base + t * stride + d)


@kernel
def _scores(
    q: Array,
    at_q: int,
    kt: Array,
    g: Array,
    i: int,
    first: int,
    K: int,
    TP: int,
    scale: float,
    row: Array,
) -> float:
    """Write s_ij for the keys first..i to `row`, minus infinity beside them; give the largest."""
    low = splat(row, -np.inf)
    top = splat(row, -np.inf)
    gi = at(g, i)
    for j in range(first // 16 * 16, i + 1, 16):
        s0 = splat(row, 0.0)
        s1 = splat(row, 0.0)
        for d in range(0, K - 1, 2):
            s0 = s0 + load(kt, d * TP + j) * at(q, at_q + d)
            s1 = s1 + load(kt, (d + 1) * TP + j) * at(q, at_q + d + 1)
        if K % 2:
            s0 = s0 + load(kt, (K - 1) * TP + j) * at(q, at_q + K - 1)
        s = (s0 + s1) * scale + (splat(row, gi) - load(g, j))
        s = first_n(s, i + 1 - j, low)
        s = first_n(low, first - j, s)
        store(row, j, s)
        top = larger(top, s)
    return largest(top)  # type: ignore[no-any-return]


@kernel
def forward(
    first: int,
    last: int,
    dims: Dims,
    q: Array,
    k: Array,
    v: Array,
    g: Array,
    sink: Array,
    scale: float,
    window: int,
    o: Array,
    lse: Array,
) -> None:
    """Heads `first..last` of (B, H); without gates g is zero, without a sink it is -infinity."""
    T, H, G, K, V = dims
    TP, VP = (T + 15) // 16 * 16, (V + 15) // 16 * 16
    kt, gs, row = np.zeros(K * TP, v.dtype), np.zeros(TP, v.dtype), np.zeros(TP, v.dtype)
    vs = np.zeros(TP * VP, v.dtype)
    for item in range(first, last):
        b, h = item // H, item % H
        c = h * G // H
        _transposed(k, (b * T * G + c) * K, G * K, T, K, TP, kt)
        for t in range(T):
            gs[t] = at(g, (b * T + t) * H + h)
            for d in range(V):
                vs[t * VP + d] = at(v, ((b * T + t) * G + c) * V + d)
        for i in range(T):
            out = (b * T + i) * H + h
            start = max(0, i - window + 1)
            top = max(_scores(q, out * K, kt, gs, i, start, K, TP, scale, row), at(sink, h))
            sums = splat(row, 0.0)
            for j in range(start // 16 * 16, i + 1, 16):
                p = exp(load(row, j) - top)
                # exp32 gives a tiny number, not zero, for minus infinity.
                p = first_n(p, i + 1 - j, splat(row, 0.0))
                p = first_n(splat(row, 0.0), start - j, p)
                store(row, j, p)
                sums = sums + p
            weight = total(sums) + math.exp(at(sink, h) - top)
            lse[out] = top + math.log(weight)
            for d in range(0, V, 16):
                a0 = splat(row, 0.0)
                a1 = splat(row, 0.0)
                a2 = splat(row, 0.0)
                a3 = splat(row, 0.0)
                for j in range(start // 4 * 4, i + 1, 4):
                    a0 = a0 + load(vs, j * VP + d) * at(row, j)
                    a1 = a1 + load(vs, (j + 1) * VP + d) * at(row, j + 1)
                    a2 = a2 + load(vs, (j + 2) * VP + d) * at(row, j + 2)
                    a3 = a3 + load(vs, (j + 3) * VP + d) * at(row, j + 3)
                store_n(o, out * V + d, (a0 + a1 + (a2 + a3)) * (1.0 / weight), V - d)


@kernel
def backward(  # noqa: C901  (a kernel)
    first: int,
    last: int,
    dims: Dims,
    q: Array,
    k: Array,
    v: Array,
    g: Array,
    scale: float,
    window: int,
    lse: Array,
    delta: Array,
    do: Array,
    dq: Array,
    dk: Array,
    dv: Array,
    dg: Array,
) -> None:
    """Key heads `first..last` of (B, G); `delta` sums o do by row; `dk`, `dv` come zeroed."""
    T, H, G, K, V = dims
    TP = (T + 15) // 16 * 16
    kt, vt, gs = np.zeros(K * TP, v.dtype), np.zeros(V * TP, v.dtype), np.zeros(TP, v.dtype)
    dkt, dvt, dgs = np.zeros(K * TP, v.dtype), np.zeros(V * TP, v.dtype), np.zeros(TP, v.dtype)
    row, grad = np.zeros(TP, v.dtype), np.zeros(TP, v.dtype)
    for item in range(first * (H // G), last * (H // G)):
        b, h = item // H, item % H
        c = h * G // H
        _transposed(k, (b * T * G + c) * K, G * K, T, K, TP, kt)
        _transposed(v, (b * T * G + c) * V, G * V, T, V, TP, vt)
        dkt[:], dvt[:], dgs[:] = 0.0, 0.0, 0.0
        for t in range(T):
            gs[t] = at(g, (b * T + t) * H + h)
        for i in range(T):
            out = (b * T + i) * H + h
            start = max(0, i - window + 1)
            base = start // 16 * 16
            _scores(q, out * K, kt, gs, i, start, K, TP, scale, row)
            level, pull = at(lse, out), at(delta, out)
            sums = splat(row, 0.0)
            for j in range(base, i + 1, 16):
                p = exp(load(row, j) - level)
                p = first_n(p, i + 1 - j, splat(row, 0.0))
                p = first_n(splat(row, 0.0), start - j, p)
                a0 = splat(row, 0.0)
                for d in range(V):
                    e = at(do, out * V + d)
                    a0 = a0 + load(vt, d * TP + j) * e
                    store(dvt, d * TP + j, load(dvt, d * TP + j) + p * e)
                ds = p * (a0 - pull)
                sums = sums + ds
                store(grad, j, ds * scale)
                store(dgs, j, load(dgs, j) - ds)
            dgs[i] += total(sums)
            for d in range(K):
                qd = at(q, out * K + d)
                a0 = splat(row, 0.0)
                for j in range(base, i + 1, 16):
                    ds = load(grad, j)
                    a0 = a0 + ds * load(kt, d * TP + j)
                    store(dkt, d * TP + j, load(dkt, d * TP + j) + ds * qd)
                dq[out * K + d] = total(a0)
        for t in range(T):
            dg[(b * T + t) * H + h] = dgs[t]
            for d in range(K):
                dk[((b * T + t) * G + c) * K + d] += dkt[d * TP + t]
            for d in range(V):
                dv[((b * T + t) * G + c) * V + d] += dvt[d * TP + t]
