"""The gated linear recurrence as one differentiable torch function."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from selectivbench.fla_cpu import linear_grad_kernels, linear_kernels
from selectivbench.fla_cpu.compiling import flat, run


def recurrence(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None = None,
    beta: Tensor | None = None,
    scale: float | None = None,
    state: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Outputs (B, T, H, V) and the last state (B, H, K, V), in float32 (or float64).

    q and k are (B, T, G, K) with G dividing H, the heads of v (B, T, H, V); g is the log decay,
    (B, T, H) or (B, T, H, K); beta is (B, T, H) and turns the delta rule on.
    """
    dtype = torch.float64 if v.dtype == torch.float64 else torch.float32
    B, H, K, V = v.shape[0], v.shape[2], k.shape[3], v.shape[3]
    first = v.new_zeros(B, H, K, V, dtype=dtype) if state is None else state.to(dtype)
    inputs = (x if x is None else x.to(dtype) for x in (q, k, v, g, beta))
    given = K**-0.5 if scale is None else float(scale)
    return _Recurrence.apply(*inputs, first, given)  # type: ignore[no-any-return,no-untyped-call]


def _gate(g: Tensor | None, K: int) -> tuple[int, int]:
    """How far apart the gates of two rows, and of two keys, are."""
    if g is None:
        return 0, 0
    return (1, 0) if g.ndim == 3 else (K, 1)


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        g: Tensor | None,
        beta: Tensor | None,
        state: Tensor,
        scale: float,
    ) -> tuple[Tensor, Tensor]:
        (B, T, H, V), (G, K) = v.shape, k.shape[2:]
        dims, gate = (T, G, H, K, V), _gate(g, K)
        decay = v.new_ones(1) if g is None else exponentials(g)
        learns = any(ctx.needs_input_grad)
        chunks = -(-T // linear_kernels.CHUNK) if learns else 0
        saved, last = v.new_empty(B * H * chunks * K * V), state.contiguous().clone()
        rest = v.new_empty(v.shape if beta is not None and learns else 0)
        o = v.new_empty(v.shape)
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        beta = beta if beta is None else beta.contiguous()
        given = (dims, flat(q), flat(k), flat(v), flat(decay), gate)
        kept = (flat(last), flat(saved))
        if beta is None:
            run(linear_kernels.forward_plain, B * H, *given, scale, *kept, flat(o))
        else:
            out = (flat(rest), flat(o))
            run(linear_kernels.forward_delta, B * H, *given, flat(beta), scale, *kept, *out)
        ctx.save_for_backward(q, k, v, decay, beta, saved, v if beta is None else rest)
        ctx.dims, ctx.gate, ctx.scale = dims, gate, scale
        ctx.gated = None if g is None else g.shape
        return o, last

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, decay, beta, saved, rest = ctx.saved_tensors
        do, dstate = grads[0].contiguous(), grads[1].contiguous().clone()
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.empty_like(v)
        dg = v.new_zeros(ctx.gated or 1)
        dbeta = None if beta is None else torch.zeros_like(beta)
        items = q.shape[0] * q.shape[2]
        run(
            linear_grad_kernels.backward, items, ctx.dims, flat(q), flat(k), flat(v), flat(decay),
            ctx.gate, _maybe(beta), ctx.scale, flat(saved), flat(rest), flat(do), flat(dstate),
            flat(dq), flat(dk), flat(dv), flat(dg), _maybe(dbeta),
        )  # fmt: skip
        return dq, dk, dv, None if ctx.gated is None else dg, dbeta, dstate, None


def exponentials(g: Tensor) -> Tensor:
    """exp(g), by the kernels' own exp: twice as fast as torch's on one thread."""
    g = g.contiguous()
    out = torch.empty_like(g)
    run(linear_kernels.exponentials, -(-g.numel() // 4096), flat(g), flat(out))
    return out


def _maybe(tensor: Tensor | None) -> Any:
    return None if tensor is None else flat(tensor)
