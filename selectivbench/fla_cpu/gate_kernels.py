"""y silu(z) in one pass over memory, forward and backward."""

from __future__ import annotations

from selectivbench.fla_cpu.compiling import Array, kernel
from selectivbench.fla_cpu.simd import load_n, splat, store_n
from selectivbench.fla_cpu.simd_functions import exp

BLOCK = 4096


@kernel
def forward(first: int, last: int, y: Array, z: Array, out: Array) -> None:
    """Blocks `first..last` of BLOCK numbers."""
    end = min(BLOCK * last, y.size)
    for i in range(BLOCK * first, end, 16):
        zv = load_n(z, i, end - i)
        gate = zv / (exp(zv * -1.0) + 1.0)
        store_n(out, i, load_n(y, i, end - i) * gate, end - i)


@kernel
def backward(first: int, last: int, y: Array, z: Array, dout: Array, dy: Array, dz: Array) -> None:
    """Blocks `first..last` of BLOCK numbers."""
    end = min(BLOCK * last, y.size)
    for i in range(BLOCK * first, end, 16):
        n = end - i
        zv, e = load_n(z, i, n), load_n(dout, i, n)
        s = splat(y, 1.0) / (exp(zv * -1.0) + 1.0)
        store_n(dy, i, e * (zv * s), n)
        store_n(dz, i, e * load_n(y, i, n) * (s + zv * s * (splat(y, 1.0) - s)), n)
