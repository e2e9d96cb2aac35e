"""The compiled inner loops. Imported by :func:`selectivbench.compiled.kernels` only.

Everything here is whole-array and single-threaded, and each random loop is bit-equal to a NumPy
generator: ``PCG64`` (O'Neill 2014, PCG-XSL-RR 128/64) and ``Philox`` (Salmon et al. 2011, 4x64-10),
with Lemire's bounded integers (2019). Plain NumPy twins of these loops stand in the tests.
"""

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

U = np.uint64
PCG_HI, PCG_LO = U(0x2360ED051FC65DA4), U(0x4385DF649FCCF645)
PHILOX_0, PHILOX_1 = U(0xD2E7470EE14C6C93), U(0xCA5A826395121157)
WEYL_0, WEYL_1 = U(0x9E3779B97F4A7C15), U(0xBB67AE8584CAA73B)
ZERO, ONE, SIX, ELEVEN, WORD, ROT, LOW = (
    U(0), U(1), U(63), U(11), U(32), U(58), U(0xFFFFFFFF)
)  # fmt: skip
TWO_M53 = 1.0 / 9007199254740992.0


@intrinsic
def high_product(context, a, b):
    """Upper 64 bits of a 64 x 64 bit product; NumPy's integers stop at 64 bits, LLVM's do not."""
    signature = types.uint64(types.uint64, types.uint64)

    def build(context, builder, signature, args):
        wide = ir.IntType(128)
        left, right = (builder.zext(arg, wide) for arg in args)
        shifted = builder.lshr(builder.mul(left, right), ir.Constant(wide, 64))
        return builder.trunc(shifted, ir.IntType(64))

    return signature, build


jit = numba.njit(cache=True)
inline = numba.njit(cache=True, inline="always")


@inline
def pcg_step(hi, lo, inc_hi, inc_lo):
    """The 128-bit linear congruential step, as two words."""
    new_lo = lo * PCG_LO + inc_lo
    carry = ONE if new_lo < inc_lo else ZERO
    new_hi = high_product(lo, PCG_LO) + lo * PCG_HI + hi * PCG_LO + inc_hi + carry
    return new_hi, new_lo


@inline
def pcg_output(hi, lo):
    """XSL-RR: xor the halves, rotate right by the top six bits."""
    mixed, turn = hi ^ lo, hi >> ROT
    return (mixed >> turn) | (mixed << ((ZERO - turn) & SIX))


@jit
def philox(key_lo, key_hi, indices, count):
    """(len(indices), count) uint64: the first raw outputs of counter block ``index`` of a key."""
    out = np.empty((len(indices), count), np.uint64)
    for row in range(len(indices)):
        for block in range((count + 3) // 4):
            a, b, c, d = U(block + 1), ZERO, U(indices[row]), ZERO
            k0, k1 = key_lo, key_hi
            for _ in range(10):
                x, y = high_product(PHILOX_0, a), PHILOX_0 * a
                z, w = high_product(PHILOX_1, c), PHILOX_1 * c
                a, b, c, d = z ^ b ^ k0, w, x ^ d ^ k1, y
                k0, k1 = k0 + WEYL_0, k1 + WEYL_1
            left = count - 4 * block
            out[row, 4 * block] = a
            if left > 1:
                out[row, 4 * block + 1] = b
            if left > 2:
                out[row, 4 * block + 2] = c
            if left > 3:
                out[row, 4 * block + 3] = d
    return out
