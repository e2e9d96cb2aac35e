# ruff: noqa: ARG001  (arguments are fla's; some only steer its GPU kernels)
"""fla's ops that become a gated linear recurrence after a change of variables.

HGRN has one state per channel: heads of width one. RWKV-6 reads before it writes: its inputs are
shifted by a step. Gated slot attention gates the values in its first half: every slot is a head
whose value is one number. Based and ReBased expand queries and keys by their Taylor features.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from selectivbench.fla_cpu.activations import wide
from selectivbench.fla_cpu.arguments import finish, packed, reject
from selectivbench.fla_cpu.linear import recurrence
from selectivbench.fla_cpu.ops_linear import Result


@packed
def hgrn(
    x: Tensor, g: Tensor, initial_state: Tensor | None = None, output_final_state: bool = False
) -> Result:
    ones = x.new_ones(*x.shape[:2], 1, 1, dtype=torch.float32)
    state = None if initial_state is None else initial_state[..., None, None]
    o, last = recurrence(ones, ones, x.unsqueeze(-1), g, None, 1.0, state)
    return finish(o[..., 0], last[..., 0, 0], x.dtype, output_final_state)


@packed
def rwkv6(
    r: Tensor,
    k: Tensor,
    v: Tensor,
    w: Tensor,
    u: Tensor,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    reverse: bool = False,
    chunk_size: int | None = None,
) -> Result:
    """o = scale r (S + u k v), then S = exp(w) S + k v: the state is read before it is written."""
    reject("rwkv6", reverse=reverse)
    scale = k.shape[-1] ** -0.5 if scale is None else scale
    q, k, v, w = (wide(x) for x in (r, k, v, w))
    keys, values, gates = (F.pad(x, (0, 0, 0, 0, 1, 0))[:, :-1] for x in (k, v, w))
    o, last = recurrence(q, keys, values, gates, None, scale, initial_state)
    now = (q * wide(u) * k).sum(-1, keepdim=True) * v * scale
    last = last * w[:, -1, :, :, None].exp() + k[:, -1, :, :, None] * v[:, -1, :, None]
    return finish(o + now, last, r.dtype, output_final_state)


@packed
def gsa(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    g: Tensor | None = None,
    scale: float | None = None,
    initial_state: tuple[Tensor, Tensor] | None = None,
    output_final_state: bool = False,
    reverse: bool = False,
    checkpoint_level: int = 2,
    chunk_size: int | None = None,
) -> tuple[Tensor, Any]:
    """Scores over slots by a first recurrence, values from the slots by a second one."""
    reject("gsa", reverse=reverse)
    if g is None:
        s, g = _additive_gate(wide(s))
    (B, T, H, K), M, G = q.shape, s.shape[3], k.shape[2]
    scale = K**-0.5 if scale is None else scale
    k, v, s, g = (wide(x).repeat_interleave(H // G, 2) for x in (k, v, s, g))
    first, second = (None, None) if initial_state is None else initial_state
    if first is not None and second is not None:
        first, second = (x.repeat_interleave(H // G, 1) for x in (first, second))
        first = first.transpose(-1, -2).reshape(B, H * M, K, 1)
    slots, heads = s.reshape(B, T, H * M, 1), g.reshape(B, T, H * M)
    scores, first = recurrence(q, k, slots, heads, None, scale, first)
    p = scores.view(B, T, H, M).softmax(-1)
    o, second = recurrence(p, s, v, g, None, 1.0, second)
    if not output_final_state:
        return o.to(q.dtype), None
    first = first.view(B, H, M, K).transpose(-1, -2).contiguous()
    return o.to(q.dtype), (first[:, :: H // G], second[:, :: H // G])


def _additive_gate(s: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and gates with which the recurrence is a running softmax over time."""
    z = s.logcumsumexp(1)
    return (s - z).exp(), torch.cat((z[:, :1], z[:, :-1]), 1) - z


def parallel_based(
    q: Tensor, k: Tensor, v: Tensor, scale: float | None = None, use_norm: bool = True
) -> Tensor:
    """Weights 1 + s + s²/2 of the score s."""
    scale = k.shape[-1] ** -0.5 if scale is None else scale
    x, y = wide(q) * scale, wide(k)
    x, y = (torch.cat((torch.ones_like(i[..., :1]), i, _squares(i) * 0.5**0.5), -1) for i in (x, y))
    o, z = _with_sum(x, y, v)
    return (o / (z + 1e-6) if use_norm else o).to(q.dtype)


def parallel_rebased(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    eps: float = 1e-5,
    use_scale: bool = True,
    use_normalize: bool = True,
    return_both: bool = False,
) -> Any:
    """Weights s² of the score s."""
    scale = q.shape[-1] ** -0.5 if use_scale else 1.0
    o, z = _with_sum(_squares(wide(q) * scale), _squares(wide(k)), v)
    if return_both:
        return o.transpose(1, 2), z[..., 0].transpose(1, 2)
    return (o / (z + eps) if use_normalize else o).to(q.dtype)


def _squares(x: Tensor) -> Tensor:
    """All products of two entries: their dot product is the square of the dot product."""
    return (x.unsqueeze(-1) * x.unsqueeze(-2)).flatten(-2)


def _with_sum(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs, and the sum of weights as one more value that is always one."""
    o, _ = recurrence(q, k, F.pad(wide(v), (0, 1), value=1.0), None, None, 1.0)
    return o[..., :-1], o[..., -1:]
