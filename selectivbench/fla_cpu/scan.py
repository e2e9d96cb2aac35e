"""Mamba's selective scan as one differentiable torch function."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from selectivbench.fla_cpu import scan_kernels
from selectivbench.fla_cpu.compiling import flat, run


def selective_scan(
    x: Tensor, dt: Tensor, A: Tensor, Bm: Tensor, Cm: Tensor, skip: Tensor, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """y (B, T, D) and the last state (B, D, N) of h = exp(dt A) h + dt x B, y = C h + skip x."""
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    first = x.new_zeros(x.shape[0], *A.shape, dtype=dtype) if state is None else state.to(dtype)
    inputs = (i.to(dtype).contiguous() for i in (x, dt, A, Bm, Cm, skip))
    return _Scan.apply(*inputs, first)  # type: ignore[no-any-return,no-untyped-call]


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        dt: Tensor,
        A: Tensor,
        Bm: Tensor,
        Cm: Tensor,
        skip: Tensor,
        state: Tensor,
    ) -> tuple[Tensor, Tensor]:
        (B, T, D), N = x.shape, A.shape[1]
        dims, blocks = (T, D, N), -(-D // 16)
        chunks = -(-T // scan_kernels.CHUNK) if any(ctx.needs_input_grad) else 0
        saved, y = x.new_empty(B * blocks * chunks * 16 * N), torch.empty_like(x)
        last = state.contiguous().clone()
        arrays = [flat(i) for i in (x, dt, A, Bm, Cm, skip, last, saved, y)]
        run(scan_kernels.forward, B * blocks, dims, *arrays)
        ctx.save_for_backward(x, dt, A, Bm, Cm, skip, saved)
        ctx.dims = dims
        return y, last

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        x, dt, A, Bm, Cm, skip, saved = ctx.saved_tensors
        (_, D, N), B = ctx.dims, x.shape[0]
        dy, dstate = grads[0].contiguous(), grads[1].contiguous().clone()
        dx, ddt = torch.empty_like(x), torch.empty_like(x)
        dB, dC = torch.zeros_like(Bm), torch.zeros_like(Cm)
        dA, dskip = x.new_empty(B, D, N), x.new_empty(B, D)
        given = [flat(i) for i in (x, dt, A, Bm, Cm, skip, saved, dy)]
        wanted = [flat(i) for i in (dstate, dx, ddt, dA, dB, dC, dskip)]
        run(scan_kernels.backward, B, ctx.dims, *given, *wanted)
        return dx, ddt, dA.sum(0), dB, dC, dskip.sum(0), dstate
