# ruff: noqa: ARG001  (arguments are fla's; some only steer its GPU kernels)
"""MesaNet: o = S^T (G + lambda)^-1 q, with G and S running sums of k k^T and k v^T.

The solve is a conjugate gradient over all steps at once; a product with every step's G is itself
a gated linear recurrence, so G is never stored per step. The gradient is implicit: the solve of
the incoming gradient gives that of the residual, whatever number of iterations was made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from selectivbench.fla_cpu.activations import wide
from selectivbench.fla_cpu.arguments import packed
from selectivbench.fla_cpu.linear import recurrence

Product = Callable[[Tensor], Tensor]
# fla's kernels add this to both denominators; the results differ visibly without it.
EPS = 1e-5


@packed
def _mesa(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    lamb: Tensor,
    initial_state: tuple[Tensor | None, Tensor | None],
    output_final_state: bool,
    iterations: int,
    normalise: bool,
) -> tuple[Tensor, Any]:
    from fla.modules.l2norm import l2norm

    dtype, (first, second) = v.dtype, initial_state
    q, k, v, g, beta, lamb = (wide(x) for x in (q, k, v, g, beta, lamb))
    if normalise:
        q, k = l2norm(q), l2norm(k)
    written = k * beta.unsqueeze(-1)

    def product(x: Tensor) -> Tensor:
        return recurrence(x, written, k, g, None, 1.0, first)[0] + lamb * x

    with torch.no_grad():
        solution = _solve(product, q, iterations)
    if torch.is_grad_enabled():
        residual = q - product(solution)
        solution = _Implicit.apply(solution, residual, product, iterations)  # type: ignore[no-untyped-call]
    o, values = recurrence(solution, written, v, g, None, 1.0, second)
    if not output_final_state:
        return o.to(dtype), None
    return o.to(dtype), (recurrence(q, written, k, g, None, 1.0, first)[1], values)


def chunk_mesa_net(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    lamb: Tensor,
    h_kk_init: Tensor | None = None,
    h_kv_init: Tensor | None = None,
    output_final_state: bool = False,
    max_CG_iteration: int = 30,
    use_qk_l2norm_in_kernel: bool = False,
    cu_seqlens: Tensor | None = None,
    cu_seqlens_cpu: Tensor | None = None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    options: dict[str, Any] = {
        "initial_state": (h_kk_init, h_kv_init),
        "output_final_state": output_final_state,
        "iterations": max_CG_iteration,
        "normalise": use_qk_l2norm_in_kernel,
        "cu_seqlens": cu_seqlens,
    }
    o, states = _mesa(q, k, v, g, beta, lamb, **options)
    return (o, None, None) if states is None else (o, *states)


def mesa_net_decoding_one_step(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    lamb: Tensor,
    beta: Tensor,
    prev_h_kk: Tensor,
    prev_h_kv: Tensor,
    max_CG_iteration: int = 30,
) -> tuple[Tensor, Tensor, Tensor]:
    """One step; q, k, v are (B, H, K) and already unit vectors."""
    q, k, v, g, beta = (x.unsqueeze(1) for x in (q, k, v, g, beta))
    before = (prev_h_kk, prev_h_kv)
    o, kk, kv = chunk_mesa_net(q, k, v, g, beta, lamb, *before, True, max_CG_iteration)
    return o[:, 0], kk, kv  # type: ignore[return-value]


def _solve(product: Product, b: Tensor, iterations: int) -> Tensor:
    """Conjugate gradients from zero, for every step and head by itself."""
    x, r = torch.zeros_like(b), b.clone()
    p, size = r, r.square().sum(-1, keepdim=True)
    for _ in range(iterations):
        image = product(p)
        step = size / ((p * image).sum(-1, keepdim=True) + EPS)
        x, r = x + step * p, r - step * image
        old, size = size, r.square().sum(-1, keepdim=True)
        p = r + size / (old + EPS) * p
    return x


class _Implicit(torch.autograd.Function):
    """The solution as it is; backward, the residual gets the solve of the gradient."""

    @staticmethod
    def forward(ctx: Any, solution: Tensor, _: Tensor, product: Product, iterations: int) -> Tensor:
        ctx.product, ctx.iterations = product, iterations
        return solution.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        with torch.no_grad():
            return None, _solve(ctx.product, grads[0], ctx.iterations), None, None
