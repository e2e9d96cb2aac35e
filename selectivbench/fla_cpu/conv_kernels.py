"""The short depthwise causal convolution with an optional SiLU: forward and backward kernels.

    z[t] = bias + sum over i of weight[i] x[t + lead - (W - 1) + i],      y = z or silu(z)

`x` has `lead` earlier rows (a cache, or none), and what lies before them is zero.
`x` is (B, lead + T, D), `y` (B, T, D), `weight` (W, D): sixteen channels are the lanes.
"""

from __future__ import annotations

import numpy as np

from selectivbench.fla_cpu.compiling import Array, kernel
from selectivbench.fla_cpu.simd import load, load_n, splat, store, store_n
from selectivbench.fla_cpu.simd_functions import exp

Dims = tuple[int, int, int, int]


@kernel
def forward(
    first: int, last: int, dims: Dims, silu: bool, x: Array, weight: Array, bias: Array, y: Array
) -> None:
    """Blocks `first..last` of (B, D / 16)."""
    T, D, W, lead = dims
    blocks = (D + 15) // 16
    for item in range(first, last):
        b, lo = item // blocks, item % blocks * 16
        width = D - lo
        for t in range(T):
            z = load_n(bias, lo, width)
            for i in range(max(0, W - 1 - lead - t), W):
                row = b * (lead + T) + t + lead - (W - 1) + i
                z = z + load_n(x, row * D + lo, width) * load_n(weight, i * D + lo, width)
            if silu:
                z = z / (exp(z * -1.0) + 1.0)
            store_n(y, (b * T + t) * D + lo, z, width)


@kernel
def backward(
    first: int,
    last: int,
    dims: Dims,
    silu: bool,
    x: Array,
    weight: Array,
    bias: Array,
    dy: Array,
    dx: Array,
    dweight: Array,
    dbias: Array,
) -> None:
    """Blocks `first..last`; `dx` comes zeroed; `dweight` is (B, W, D), `dbias` (B, D)."""
    T, D, W, lead = dims
    blocks = (D + 15) // 16
    dw = np.zeros(16 * W, x.dtype)
    for item in range(first, last):
        b, lo = item // blocks, item % blocks * 16
        width = D - lo
        dw[:] = 0.0
        db = splat(x, 0.0)
        for t in range(T):
            dz = load_n(dy, (b * T + t) * D + lo, width)
            start = max(0, W - 1 - lead - t)
            base = b * (lead + T) + t + lead - (W - 1)
            if silu:
                z = load_n(bias, lo, width)
                for i in range(start, W):
                    xi = load_n(x, (base + i) * D + lo, width)
                    z = z + xi * load_n(weight, i * D + lo, width)
                s = splat(x, 1.0) / (exp(z * -1.0) + 1.0)
                dz = dz * (s + z * s * (splat(x, 1.0) - s))
            db = db + dz
            for i in range(start, W):
                at_x = (base + i) * D + lo
                store(dw, 16 * i, load(dw, 16 * i) + dz * load_n(x, at_x, width))
                dxi = load_n(dx, at_x, width) + dz * load_n(weight, i * D + lo, width)
                store_n(dx, at_x, dxi, width)
        store_n(dbias, b * D + lo, db, width)
        for i in range(W):
            store_n(dweight, (b * W + i) * D + lo, load(dw, 16 * i), width)
