# ruff: noqa: ARG001  (arguments are fla's; some only steer its GPU kernels)
"""fla's ops under RWKV-7 (and the token shift of RWKV-6), and Comba, which has its transition."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from selectivbench.fla_cpu.activations import wide
from selectivbench.fla_cpu.arguments import finish, packed, reject
from selectivbench.fla_cpu.dplr import dplr
from selectivbench.fla_cpu.ops_linear import Result, prepare


@packed
def chunk_dplr_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    a: Tensor,
    b: Tensor,
    gk: Tensor,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    cp_context: object = None,
    **tuning: Any,
) -> Result:
    reject("chunk_dplr_delta_rule", cp_context=cp_context)
    scale = k.shape[-1] ** -0.5 if scale is None else scale
    o, last = dplr(q, k, v, a, b, gk, scale, initial_state)
    return finish(o, last, q.dtype, output_final_state)


@packed
def fused_mul_recurrent_rwkv7(
    r: Tensor,
    w: Tensor,
    k: Tensor,
    v: Tensor,
    kk: Tensor,
    a: Tensor,
    scale: float | None = 1.0,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    reverse: bool = False,
) -> Result:
    reject("fused_mul_recurrent_rwkv7", reverse=reverse)
    scale = r.shape[-1] ** -0.5 if scale is None else scale
    o, last = dplr(r, k, v, -kk, kk * a, w, scale, initial_state)
    return finish(o, last, v.dtype, output_final_state)


@packed
def comba(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    p: Tensor,
    g: Tensor,
    beta: Tensor | None = None,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
) -> Result:
    """A delta rule that looks up under p, before the decay, and writes under k."""
    from fla.modules.l2norm import l2norm

    beta = torch.ones_like(q[..., 0]) if beta is None else beta
    p = l2norm(p) if use_qk_l2norm_in_kernel else p
    q, k, beta = prepare(q, k, beta, use_qk_l2norm_in_kernel)
    q, k, p = (x.repeat_interleave(v.shape[2] // k.shape[2], 2) for x in (q, k, p))
    written = wide(k) * wide(beta).unsqueeze(-1)
    gates = wide(g).unsqueeze(-1).expand_as(k)
    scale = k.shape[-1] ** -0.5 if scale is None else scale
    o, last = dplr(q, written, v, -wide(p), written, gates, scale, initial_state)
    return finish(o, last, v.dtype, output_final_state)


def fused_recurrent_comba(
    q: Tensor, k: Tensor, p: Tensor, v: Tensor, g: Tensor, *args: Any, **kwargs: Any
) -> Result:
    """fla's recurrent variant has p and v the other way round."""
    return comba(q, k, v, p, g, *args, **kwargs)


def token_shift(
    x: Tensor,
    cu_seqlens: Tensor | None = None,
    cache: Tensor | None = None,
    output_cache: bool = False,
    chunk_indices: Tensor | None = None,
) -> Any:
    """The token before minus the token; the last token of every sequence is the new cache."""
    first = cache.reshape(-1, 1, x.shape[-1]) if cache is not None else None
    if cu_seqlens is not None:
        parts = x.split_with_sizes(cu_seqlens.diff().tolist(), 1)
        starts = [None] * len(parts) if first is None else first.split_with_sizes([1] * len(parts))
        pairs = [_shift(p, s) for p, s in zip(parts, starts, strict=True)]
        y, last = torch.cat([y for y, _ in pairs], 1), torch.cat([c for _, c in pairs])
    else:
        y, last = _shift(x, first)
    return (y, last) if output_cache else y


def _shift(x: Tensor, first: Tensor | None) -> tuple[Tensor, Tensor]:
    start = torch.zeros_like(x[:, :1]) if first is None else first.to(x.dtype)
    return torch.cat((start, x[:, :-1]), 1) - x, x[:, -1:]


def fused_addcmul_rwkv7(
    hidden_states: Tensor,
    delta: Tensor,
    xr: Tensor,
    xw: Tensor,
    xk: Tensor,
    xv: Tensor,
    xa: Tensor,
    xg: Tensor | None = None,
) -> tuple[Tensor | None, ...]:
    return tuple(
        None if x is None else torch.addcmul(hidden_states, delta, x)
        for x in (xr, xw, xk, xv, xa, xg)
    )


def fused_k_rwkv7(
    k: Tensor,
    a: Tensor,
    ka: Tensor,
    cu_seqlens: Tensor | None = None,
    cu_seqlens_cpu: Tensor | None = None,
) -> Tensor:
    return k.addcmul(k * (a - 1), ka)


def gate_output_correction(
    o: Tensor, r: Tensor, k: Tensor, r_k: Tensor, v: Tensor, g: Tensor
) -> Tensor:
    correction = (r * k * r_k).sum(-1, keepdim=True) * v
    return (o + correction.reshape(o.shape)) * g
