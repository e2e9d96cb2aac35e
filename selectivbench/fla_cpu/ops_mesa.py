# ruff: noqa: ARG001  (arguments are fla's; some only steer its GPU kernels)
"""MesaNet: o = S^T (G + lambda)^-1 q, with G and S running sums of k k^T and k v^T."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from selectivbench.fla_cpu.activations import wide
from selectivbench.fla_cpu.arguments import packed
from selectivbench.fla_cpu.linear import recurrence
from selectivbench.fla_cpu.mesa import solution


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
    B, _, H, K = k.shape
    first = k.new_zeros(B, H, K, K) if first is None else wide(first)
    x = solution(q, k, written, g, lamb, first, iterations)
    o, values = recurrence(x, written, v, g, None, 1.0, second)
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
