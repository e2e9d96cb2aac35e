# ruff: noqa: ARG001  (arguments are fla's; some only steer its GPU kernels)
"""fla's softmax attention with forget gates, and what its layers take from flash-attn."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from selectivbench.errors import UsageError, explain
from selectivbench.fla_cpu import attention_kernels
from selectivbench.fla_cpu.activations import wide
from selectivbench.fla_cpu.compiling import flat, run

LN2 = math.log(2.0)


def parallel_attn_fwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g_cumsum: Tensor | None,
    sink_bias: Tensor | None,
    scale: float,
    window_size: int | None = None,
    cu_seqlens: Tensor | None = None,
    chunk_indices: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Outputs and the logarithms of the rows' sums; as in fla, gates and logs are to base two."""
    if cu_seqlens is not None:
        pieces = _pieces(cu_seqlens, q, k, v, g_cumsum)
        rest: Any = (sink_bias, scale, window_size)
        done = [parallel_attn_fwd(*p, *rest) for p in pieces]
        return torch.cat([o for o, _ in done], 1), torch.cat([lse for _, lse in done], 1)
    (B, T, H, K), (G, V) = q.shape, v.shape[2:]
    dtype = wide(v[:0]).dtype
    g = q.new_zeros(B, T, H, dtype=dtype) if g_cumsum is None else wide(g_cumsum) * LN2
    sink = torch.full((H,), -torch.inf, dtype=dtype)
    sink = sink if sink_bias is None else wide(sink_bias).to(dtype) * LN2
    o, lse = q.new_empty(B, T, H, V, dtype=dtype), q.new_empty(B, T, H, dtype=dtype)
    arrays = [flat(x) for x in (wide(q), wide(k), wide(v), g.to(dtype), sink)]
    window = T if window_size is None else window_size
    run(
        attention_kernels.forward,
        B * H,
        (T, H, G, K, V),
        *arrays,
        scale,
        window,
        flat(o),
        flat(lse),
    )
    return o.to(v.dtype), lse / LN2


def parallel_attn_bwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    g_cumsum: Tensor | None,
    lse: Tensor,
    do: Tensor,
    sink_bias: Tensor | None = None,
    scale: float | None = None,
    window_size: int | None = None,
    chunk_size: int = 128,
    cu_seqlens: Tensor | None = None,
    chunk_indices: Tensor | None = None,
) -> tuple[Tensor | None, ...]:
    """Gradients of q, k, v, of the summed gates (to base e, as in fla), and of the sink."""
    scale = k.shape[-1] ** -0.5 if scale is None else scale
    delta = (wide(o) * wide(do)).sum(-1)
    pieces = [(q, k, v, g_cumsum, lse, delta, do)]
    if cu_seqlens is not None:
        pieces = _pieces(cu_seqlens, *pieces[0])
    parts = [_attention_grad(*p, scale, window_size) for p in pieces]
    dq, dk, dv, dg = (torch.cat(x, 1) for x in zip(*parts, strict=True))
    dsink = None
    if sink_bias is not None:
        dsink = -(torch.exp2(wide(sink_bias) - lse) * delta).sum((0, 1))
    return dq, dk, dv, None if g_cumsum is None else dg, dsink


def _attention_grad(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g_cumsum: Tensor | None,
    lse: Tensor,
    delta: Tensor,
    do: Tensor,
    scale: float,
    window_size: int | None,
) -> tuple[Tensor, ...]:
    (B, T, H, K), (G, V) = q.shape, v.shape[2:]
    dtype = wide(v[:0]).dtype
    given = (q, k, v) if g_cumsum is None else (q, k, v, g_cumsum * LN2)
    arrays = [flat(wide(x).to(dtype)) for x in given]
    if g_cumsum is None:
        arrays.append(flat(q.new_zeros(B, T, H, dtype=dtype)))
    rows = [flat(wide(x).to(dtype)) for x in (lse * LN2, delta, do)]
    dq, dg = q.new_empty(q.shape, dtype=dtype), q.new_empty(B, T, H, dtype=dtype)
    dk, dv = k.new_zeros(k.shape, dtype=dtype), v.new_zeros(v.shape, dtype=dtype)
    out = [flat(x) for x in (dq, dk, dv, dg)]
    window = T if window_size is None else window_size
    run(attention_kernels.backward, B * G, (T, H, G, K, V), *arrays, scale, window, *rows, *out)
    return dq, dk, dv, dg


def _pieces(cu_seqlens: Tensor, *tensors: Tensor | None) -> list[tuple[Any, ...]]:
    """The tensors of each sequence of a packed batch."""
    lengths = cu_seqlens.diff().tolist()
    cut = [
        [None] * len(lengths) if x is None else list(x.split_with_sizes(lengths, 1))
        for x in tensors
    ]
    return list(zip(*cut, strict=True))


def attn_decoding_one_step(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None = None,
    scale: float | None = None,
    cu_seqlens: Tensor | None = None,
    do_gate_scale: bool = False,
    *,
    window_size: int | None = None,
    sink_bias: Tensor | None = None,
) -> Tensor:
    """One query for each packed sequence of keys, at the end of it."""
    if cu_seqlens is None:
        remedy = "pass the lengths of the cached keys"
        raise UsageError(explain("attn_decoding_one_step cu_seqlens", None, "a tensor", remedy))
    scale = k.shape[-1] ** -0.5 if scale is None else scale
    factor = scale if do_gate_scale else 1.0
    window = k.shape[1] if window_size is None else window_size
    rows = []
    for i, (ks, vs, gs) in enumerate(_pieces(cu_seqlens, k, v, g)):
        kept, R = slice(max(0, ks.shape[1] - window), None), q.shape[2] // k.shape[2]
        keys, values = (wide(x[0]).repeat_interleave(R, 1) for x in (ks, vs))
        s = torch.einsum("hk,thk->ht", wide(q[0, i]), keys) * scale
        if gs is not None:
            sums = wide(gs[0]).cumsum(0)
            s = s + (sums[-1] - sums).t() * factor
        s = s[:, kept]
        if sink_bias is not None:
            s = torch.cat((s, wide(sink_bias).unsqueeze(1)), 1)
        p = s.softmax(1)[:, : keys[kept].shape[0]]
        rows.append(torch.einsum("ht,thv->hv", p, values[kept]))
    return torch.stack(rows).unsqueeze(0).to(v.dtype)


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softmax_scale: float | None = None,
) -> Tensor:
    """flash-attn's function by torch's scaled_dot_product_attention; (B, T, H, D) in and out."""
    n, m = q.shape[1], k.shape[1]
    left, right = window_size
    gap = torch.arange(n).unsqueeze(1) + (m - n) - torch.arange(m)
    ahead = 0 if causal else (right if right >= 0 else m)
    allowed = (gap >= -ahead) & (gap <= (left if left >= 0 else m))
    whole = causal and n == m and window_size == (-1, -1)
    o = F.scaled_dot_product_attention(
        q.transpose(1, 2),
        k.transpose(1, 2),
        v.transpose(1, 2),
        attn_mask=None if whole else allowed,
        is_causal=whole,
        scale=softmax_scale,
        enable_gqa=q.shape[2] != k.shape[2],
    )
    return o.transpose(1, 2)


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
) -> Tensor:
    """The same on packed sequences (sum of T, H, D)."""
    qs = q.split_with_sizes(cu_seqlens_q.diff().tolist())
    ks, vs = (x.split_with_sizes(cu_seqlens_k.diff().tolist()) for x in (k, v))
    done = [
        flash_attn_func(a[None], b[None], c[None], causal, window_size)[0]
        for a, b, c in zip(qs, ks, vs, strict=True)
    ]
    return torch.cat(done)
