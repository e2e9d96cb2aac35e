"""Mamba's selective scan: forward and backward kernels.

    h = exp(dt A) h + dt x B        one state of N numbers per channel
    y = C h + D x

Sixteen channels are the lanes, so B and C are broadcast and y needs no sum over lanes. The state
is saved every CHUNK steps and rebuilt between; exp is computed twice rather than stored.
x, dt, y are (B, T, D), B and C (B, T, N), A and the states (D, N) and (B, D, N), all contiguous.
"""

from __future__ import annotations

import numpy as np

from selectivbench.fla_cpu.compiling import Array, kernel
from selectivbench.fla_cpu.simd import at, load, load_n, splat, store, store_n
from selectivbench.fla_cpu.simd_functions import exp, totals

CHUNK = 16


@kernel
def forward(
    first: int,
    last: int,
    dims: tuple[int, int, int],
    x: Array,
    dt: Array,
    A: Array,
    Bm: Array,
    Cm: Array,
    skip: Array,
    state: Array,
    saved: Array,
    y: Array,
) -> None:
    """Blocks `first..last` of (B, D / 16); `saved`, where not empty, gets the states at chunks."""
    T, D, N = dims
    blocks, chunks = (D + 15) // 16, (T + CHUNK - 1) // CHUNK
    keep = saved.size > 0
    h, a = np.zeros(16 * N, x.dtype), np.zeros(16 * N, x.dtype)
    for item in range(first, last):
        b, lo = item // blocks, item % blocks * 16
        width = min(16, D - lo)
        for n in range(N):
            for d in range(width):
                h[16 * n + d] = state[(b * D + lo + d) * N + n]
                a[16 * n + d] = A[(lo + d) * N + n]
        for t in range(T):
            if keep and t % CHUNK == 0:
                base = (item * chunks + t // CHUNK) * 16 * N
                for i in range(0, 16 * N, 16):
                    store(saved, base + i, load(h, i))
            row = b * T + t
            xv = load_n(x, row * D + lo, width)
            dv = load_n(dt, row * D + lo, width)
            dx = dv * xv
            out = xv * load_n(skip, lo, width)
            for n in range(N):
                hn = load(h, 16 * n) * exp(dv * load(a, 16 * n)) + dx * at(Bm, row * N + n)
                store(h, 16 * n, hn)
                out = out + hn * at(Cm, row * N + n)
            store_n(y, row * D + lo, out, width)
        for n in range(N):
            for d in range(width):
                state[(b * D + lo + d) * N + n] = h[16 * n + d]


@kernel
def backward(  # noqa: C901  (a kernel)
    first: int,
    last: int,
    dims: tuple[int, int, int],
    x: Array,
    dt: Array,
    A: Array,
    Bm: Array,
    Cm: Array,
    skip: Array,
    saved: Array,
    dy: Array,
    dstate: Array,
    dx: Array,
    ddt: Array,
    dA: Array,
    dB: Array,
    dC: Array,
    dskip: Array,
) -> None:
    """Sequences `first..last`. `dB` and `dC` come zeroed; `dA` (B, D, N), `dskip` (B, D)."""
    T, D, N = dims
    blocks, chunks = (D + 15) // 16, (T + CHUNK - 1) // CHUNK
    NP = (N + 15) // 16 * 16
    dh, a, da = np.zeros(16 * N, x.dtype), np.zeros(16 * N, x.dtype), np.zeros(16 * N, x.dtype)
    h = np.zeros(16 * N, x.dtype)
    decay, decayed = np.zeros(CHUNK * 16 * N, x.dtype), np.zeros(CHUNK * 16 * N, x.dtype)
    forB, forC = np.zeros(16 * NP, x.dtype), np.zeros(16 * NP, x.dtype)
    for item in range(first * blocks, last * blocks):
        b, lo = item // blocks, item % blocks * 16
        width = min(16, D - lo)
        for n in range(N):
            for d in range(16):
                inside = d < width
                dh[16 * n + d] = dstate[(b * D + lo + d) * N + n] if inside else 0.0
                a[16 * n + d] = A[(lo + d) * N + n] if inside else 0.0
                da[16 * n + d] = 0.0
        dskips = splat(x, 0.0)
        skips = load_n(skip, lo, width)
        for c in range(chunks - 1, -1, -1):
            steps = min(CHUNK, T - c * CHUNK)
            for i in range(0, 16 * N, 16):
                store(h, i, load(saved, (item * chunks + c) * 16 * N + i))
            for t in range(steps):
                row = b * T + c * CHUNK + t
                dv = load_n(dt, row * D + lo, width)
                u = dv * load_n(x, row * D + lo, width)
                for n in range(N):
                    w = exp(dv * load(a, 16 * n))
                    hn = load(h, 16 * n) * w
                    store(decay, 16 * (t * N + n), w)
                    store(decayed, 16 * (t * N + n), hn)
                    store(h, 16 * n, hn + u * at(Bm, row * N + n))
            for t in range(steps - 1, -1, -1):
                row = b * T + c * CHUNK + t
                xv = load_n(x, row * D + lo, width)
                dv = load_n(dt, row * D + lo, width)
                e = load_n(dy, row * D + lo, width)
                u = dv * xv
                du = splat(x, 0.0)
                dlog = splat(x, 0.0)
                for n in range(N):
                    Bn, hn = at(Bm, row * N + n), load(decayed, 16 * (t * N + n))
                    g = load(dh, 16 * n) + e * at(Cm, row * N + n)
                    store(forC, 16 * n, e * (hn + u * Bn))
                    store(forB, 16 * n, g * u)
                    du = du + g * Bn
                    m = g * hn
                    dlog = dlog + m * load(a, 16 * n)
                    store(da, 16 * n, load(da, 16 * n) + m * dv)
                    store(dh, 16 * n, g * load(decay, 16 * (t * N + n)))
                store_n(dx, row * D + lo, du * dv + e * skips, width)
                store_n(ddt, row * D + lo, dlog + du * xv, width)
                dskips = dskips + e * xv
                for n in range(0, N, 16):
                    _add_sums(forB, 16 * n, dB, row * N + n, N - n)
                    _add_sums(forC, 16 * n, dC, row * N + n, N - n)
        store_n(dskip, b * D + lo, dskips, width)
        for n in range(N):
            for d in range(width):
                dstate[(b * D + lo + d) * N + n] = dh[16 * n + d]
                dA[(b * D + lo + d) * N + n] = da[16 * n + d]


@kernel
def _add_sums(rows: Array, offset: int, out: Array, at_out: int, n: int) -> None:
    """Add the lane sums of sixteen vectors to `n` neighbouring numbers."""
    sums = totals(
        (
            load(rows, offset),
            load(rows, offset + 16),
            load(rows, offset + 32),
            load(rows, offset + 48),
            load(rows, offset + 64),
            load(rows, offset + 80),
            load(rows, offset + 96),
            load(rows, offset + 112),
            load(rows, offset + 128),
            load(rows, offset + 144),
            load(rows, offset + 160),
            load(rows, offset + 176),
            load(rows, offset + 192),
            load(rows, offset + 208),
            load(rows, offset + 224),
            load(rows, offset + 240),
        )
    )
    store_n(out, at_out, load_n(out, at_out, n) + sums, n)
