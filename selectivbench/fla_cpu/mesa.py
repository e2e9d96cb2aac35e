"""MesaNet's linear systems, one for every step and head, as one differentiable torch function."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from selectivbench.fla_cpu import mesa_kernels
from selectivbench.fla_cpu.compiling import flat, run
from selectivbench.fla_cpu.linear import exponentials, recurrence
from selectivbench.fla_cpu.simd import LANES


def solution(
    b: Tensor, k: Tensor, written: Tensor, g: Tensor, lamb: Tensor, state: Tensor, iterations: int
) -> Tensor:
    """x (B, T, H, K), nearly (G_t + lambda)^-1 b_t, in the dtype of b: float32 or float64.

    `G_t = exp(g_t) G_(t-1) + written_t k_t^T`, the first from `state` (B, H, K, K). b, k and
    written are (B, T, H, K), the log decay g is (B, T, H), lamb is (H, K). The gradient is
    implicit: the solve of the incoming gradient gives that of the residual, whatever number of
    iterations was made.
    """
    system = k, written, g, lamb, state = [x.to(b.dtype) for x in (k, written, g, lamb, state)]
    with torch.no_grad():
        x = _solve(iterations, b, *system)
    if not torch.is_grad_enabled():
        return x
    residual = b - recurrence(x, written, k, g, None, 1.0, state)[0] - lamb * x
    return _Implicit.apply(x, residual, iterations, *system)  # type: ignore[no-any-return,no-untyped-call]


class _Implicit(torch.autograd.Function):
    """The solution as it is; backward, the residual gets the solve of the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, _: Tensor, iterations: int, *system: Tensor) -> Tensor:
        ctx.save_for_backward(*system)
        ctx.iterations = iterations
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        system = ctx.saved_tensors
        dresidual = _solve(ctx.iterations, grads[0], *system)
        return None, dresidual, None, *(None for _ in system)


def _solve(
    iterations: int, b: Tensor, k: Tensor, written: Tensor, g: Tensor, lamb: Tensor, state: Tensor
) -> Tensor:
    """`solution` without a gradient. A small batch is cut along T, or its lanes would be empty."""
    B, T, H, K = b.shape
    pieces = min(T, LANES // max(1, B * H))
    if pieces <= 1:
        return _run(iterations, b, k, written, g, lamb, state)
    padding = -T % pieces
    cut = [F.pad(x, (0, 0) * (x.ndim - 2) + (0, padding)) for x in (b, k, written, g)]
    cut = [x.reshape(B, pieces, -1, *x.shape[2:]) for x in cut]
    # The states between the pieces: one more product with G, beside one per iteration.
    states = [state]
    for _, k_, written_, g_ in zip(*(x[:, :-1].unbind(1) for x in cut), strict=True):
        states.append(recurrence(k_, written_, k_, g_, None, 1.0, states[-1])[1])
    b, k, written, g = (x.flatten(0, 1) for x in cut)
    x = _run(iterations, b, k, written, g, lamb, torch.stack(states, 1).flatten(0, 1))
    return x.view(B, -1, H, K)[:, :T]


def _run(
    iterations: int, b: Tensor, k: Tensor, written: Tensor, g: Tensor, lamb: Tensor, state: Tensor
) -> Tensor:
    B, T, H, K = b.shape
    x = b.new_empty(b.shape)
    given = (flat(y.contiguous()) for y in (b, k, written, exponentials(g), lamb, state))
    run(mesa_kernels.solve, -(-B * H // LANES), (T, H, K), *given, iterations, flat(x))
    return x
