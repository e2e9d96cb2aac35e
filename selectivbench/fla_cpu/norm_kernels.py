"""RMSNorm and LayerNorm over rows, with an optional output gate: forward and backward kernels.

    n = (x - mean) rstd            mean = 0 for RMSNorm
    y = (n weight + bias) act(g)   act: 0 none, 1 swish, 2 sigmoid

Row r uses the weights of group r % groups. Gradients of the weights are kept per block of ROWS
rows, (blocks, groups, D), and summed by the caller, so that blocks can run at the same time.
"""

from __future__ import annotations

import math

from selectivbench.fla_cpu.compiling import Array, kernel
from selectivbench.fla_cpu.simd import first_n, load_n, splat, store_n
from selectivbench.fla_cpu.simd_functions import exp, total

ROWS = 512
Dims = tuple[int, int, int]


@kernel
def forward(
    first: int,
    last: int,
    dims: Dims,
    eps: float,
    rms: bool,
    act: int,
    x: Array,
    g: Array,
    weight: Array,
    bias: Array,
    y: Array,
    mean: Array,
    rstd: Array,
) -> None:
    """Blocks `first..last` of ROWS rows; `g` is read only with an activation."""
    R, D, G = dims
    for r in range(first * ROWS, min(R, last * ROWS)):
        at_x, at_w = r * D, r % G * D
        m = 0.0
        if not rms:
            sums = splat(x, 0.0)
            for i in range(0, D, 16):
                sums = sums + load_n(x, at_x + i, D - i)
            m = total(sums) / D
            mean[r] = m
        squares = splat(x, 0.0)
        for i in range(0, D, 16):
            # Subtracting the mean fills the lanes past the end, so they are cleared again.
            c = first_n(load_n(x, at_x + i, D - i) - m, D - i, splat(x, 0.0))
            squares = squares + c * c
        scale = 1.0 / math.sqrt(total(squares) / D + eps)
        rstd[r] = scale
        for i in range(0, D, 16):
            n = D - i
            out = (load_n(x, at_x + i, n) - m) * scale
            out = out * load_n(weight, at_w + i, n) + load_n(bias, at_w + i, n)
            if act > 0:
                gate = load_n(g, at_x + i, n)
                sigmoid = splat(x, 1.0) / (exp(gate * -1.0) + 1.0)
                out = out * sigmoid
                if act == 1:
                    out = out * gate
            store_n(y, at_x + i, out, n)


@kernel
def backward(
    first: int,
    last: int,
    dims: Dims,
    rms: bool,
    act: int,
    x: Array,
    g: Array,
    weight: Array,
    bias: Array,
    mean: Array,
    rstd: Array,
    dy: Array,
    dx: Array,
    dg: Array,
    dweight: Array,
    dbias: Array,
) -> None:
    """Blocks `first..last` of ROWS rows; `dweight` and `dbias` come zeroed."""
    R, D, G = dims
    for r in range(first * ROWS, min(R, last * ROWS)):
        at_x, at_w = r * D, r % G * D
        at_p = r // ROWS * G * D + at_w
        m = 0.0 if rms else mean[r]
        scale = rstd[r]
        dot = splat(x, 0.0)
        sums = splat(x, 0.0)
        for i in range(0, D, 16):
            n = D - i
            c = (load_n(x, at_x + i, n) - m) * scale
            w = load_n(weight, at_w + i, n)
            e = load_n(dy, at_x + i, n)
            if act > 0:
                gate = load_n(g, at_x + i, n)
                s = splat(x, 1.0) / (exp(gate * -1.0) + 1.0)
                slope = s * (splat(x, 1.0) - s)
                value = s
                if act == 1:
                    slope = s + gate * slope
                    value = s * gate
                store_n(dg, at_x + i, e * (c * w + load_n(bias, at_w + i, n)) * slope, n)
                e = e * value
            store_n(dweight, at_p + i, load_n(dweight, at_p + i, n) + e * c, n)
            store_n(dbias, at_p + i, load_n(dbias, at_p + i, n) + e, n)
            e = e * w
            dot = dot + e * c
            sums = sums + e
            store_n(dx, at_x + i, e, n)
        along = total(dot) / D
        level = 0.0 if rms else total(sums) / D
        for i in range(0, D, 16):
            n = D - i
            c = (load_n(x, at_x + i, n) - m) * scale
            store_n(dx, at_x + i, (load_n(dx, at_x + i, n) - c * along - level) * scale, n)
