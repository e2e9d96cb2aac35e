# ruff: noqa: ARG001  (arguments are fla's; some only steer its GPU kernels)
"""fla's ops that are a gated linear recurrence, with or without the delta rule."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from selectivbench.fla_cpu.activations import wide
from selectivbench.fla_cpu.arguments import finish, keys_first, packed, reject
from selectivbench.fla_cpu.linear import recurrence

Result = tuple[Tensor, Tensor | None]


@packed
def chunk_gla(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    state_v_first: bool = False,
) -> Result:
    state = keys_first(initial_state, state_v_first)
    o, last = recurrence(q, k, v, g, None, scale, state)
    return finish(o, last, q.dtype, output_final_state, state_v_first)


@packed
def fused_recurrent_gla(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gk: Tensor | None = None,
    gv: Tensor | None = None,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    reverse: bool = False,
    state_v_first: bool = False,
    **deprecated: Any,
) -> Result:
    reject("fused_recurrent_gla", gv=gv, reverse=reverse, **deprecated)
    state = keys_first(initial_state, state_v_first)
    o, last = recurrence(q, k, v, gk, None, scale, state)
    return finish(o, last, q.dtype, output_final_state, state_v_first)


@packed
def simple_gla(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None = None,
    g_gamma: Tensor | None = None,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    reverse: bool = False,
    state_v_first: bool = False,
    chunk_size: int | None = None,
    **deprecated: Any,
) -> Result:
    """All of fla's variants of simple GLA; with `g_gamma` it is retention, without both linear."""
    reject("simple_gla", reverse=reverse, **deprecated)
    if g_gamma is not None:
        constant = g_gamma.expand(*v.shape[:3])
        g = constant if g is None else g + constant
    state = keys_first(initial_state, state_v_first)
    o, last = recurrence(q, k, v, g, None, scale, state)
    return finish(o, last, q.dtype, output_final_state, state_v_first)


def parallel_simple_gla(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None = None,
    scale: float | None = None,
    output_attentions: bool = False,
    **packing: Any,
) -> Result:
    reject("parallel_simple_gla", output_attentions=output_attentions)
    return simple_gla(q, k, v, g=g, scale=scale, **packing)


@packed
def delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor | None = None,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    chunk_size: int | None = None,
) -> Result:
    beta = torch.ones_like(q[..., 0]) if beta is None else beta
    q, k, beta = prepare(q, k, beta, use_qk_l2norm_in_kernel)
    o, last = recurrence(q, k, v, None, beta, scale, initial_state)
    return finish(o, last, v.dtype, output_final_state)


@packed
def gated_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None = None,
    beta: Tensor | None = None,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    state_v_first: bool = False,
    use_gate_in_kernel: bool = False,
    A_log: Tensor | None = None,
    dt_bias: Tensor | None = None,
    gk: Tensor | None = None,
    gv: Tensor | None = None,
    cp_context: object = None,
    chunk_size: int | None = None,
) -> Result:
    reject("gated_delta_rule", gk=gk, gv=gv, cp_context=cp_context)
    beta = torch.ones_like(v[..., 0]) if beta is None else beta
    q, k, beta = prepare(
        q, k, beta, use_qk_l2norm_in_kernel, use_beta_sigmoid_in_kernel, allow_neg_eigval
    )
    if use_gate_in_kernel and g is not None and A_log is not None:
        g = -wide(A_log).exp() * F.softplus(wide(g) + (0 if dt_bias is None else wide(dt_bias)))
    state = keys_first(initial_state, state_v_first)
    o, last = recurrence(q, k, v, g, beta, scale, state)
    return finish(o, last, v.dtype, output_final_state, state_v_first)


@packed
def kda(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    A_log: Tensor | None = None,
    dt_bias: Tensor | None = None,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    use_gate_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    safe_gate: bool = False,
    lower_bound: float | None = None,
    state_v_first: bool = False,
    return_intermediate_states: bool = False,
    cp_context: object = None,
    **tuning: Any,
) -> Result:
    reject("kda", return_intermediate_states=return_intermediate_states, cp_context=cp_context)
    q, k, beta = prepare(
        q, k, beta, use_qk_l2norm_in_kernel, use_beta_sigmoid_in_kernel, allow_neg_eigval
    )
    if use_gate_in_kernel:
        g = _kda_gate(g, A_log, dt_bias, lower_bound)
    state = keys_first(initial_state, state_v_first)
    o, last = recurrence(q, k, v, g, beta, scale, state)
    return finish(o, last, v.dtype, output_final_state, state_v_first)


def _kda_gate(
    g: Tensor, A_log: Tensor | None, dt_bias: Tensor | None, lower_bound: float | None
) -> Tensor:
    g = wide(g)
    g = g if dt_bias is None else g + wide(dt_bias).view(g.shape[-2:])
    rate = 1.0 if A_log is None else wide(A_log).view(-1, 1).exp()
    if lower_bound is not None:
        return lower_bound * torch.sigmoid(rate * g)
    return -rate * F.softplus(g)


@packed
def gated_delta_product(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    beta: Tensor,
    num_householder: int,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    cp_context: object = None,
) -> Result:
    """Several delta steps for one input: the first one decays, the last one is read."""
    reject("gated_delta_product", cp_context=cp_context)
    q, k, beta = prepare(q, k, beta, use_qk_l2norm_in_kernel)
    n = num_householder
    if g is not None:
        g = F.pad(wide(g).unsqueeze(2), (0, 0, 0, n - 1)).flatten(1, 2)
    dtype, spread = v.dtype, F.pad(q.unsqueeze(2), (0, 0, 0, 0, n - 1, 0)).flatten(1, 2)
    o, last = recurrence(spread, k, v, g, beta, scale, initial_state)
    return finish(o[:, n - 1 :: n], last, dtype, output_final_state)


def prepare(
    q: Tensor,
    k: Tensor,
    beta: Tensor,
    normalise: bool,
    sigmoid: bool = False,
    negative: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """What fla's kernels may do first: unit keys and queries, and beta from its logits."""
    from fla.modules.l2norm import l2norm

    if normalise:
        q, k = l2norm(q), l2norm(k)
    if sigmoid:
        beta = torch.sigmoid(wide(beta)) * (2.0 if negative else 1.0)
    return q, k, beta
