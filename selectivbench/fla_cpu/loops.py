"""The recurrences as plain autograd loops over time, for the benchmark to compare with."""

from __future__ import annotations

import torch
from torch import Tensor


def recurrence(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None = None,
    beta: Tensor | None = None,
    scale: float | None = None,
    state: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`linear.recurrence`, one step at a time."""
    (B, T, H, V), K, repeats = v.shape, k.shape[3], v.shape[2] // k.shape[2]
    q, k = q.repeat_interleave(repeats, 2), k.repeat_interleave(repeats, 2)
    S = v.new_zeros(B, H, K, V) if state is None else state
    decay = torch.ones(1, T, 1, 1, 1) if g is None else g.exp().view(B, T, H, -1, 1)
    outputs = []
    for t in range(T):
        S = S * decay[:, t]
        u = v[:, t]
        if beta is not None:
            u = beta[:, t].unsqueeze(-1) * (u - (S * k[:, t].unsqueeze(-1)).sum(-2))
        S = S + k[:, t].unsqueeze(-1) * u.unsqueeze(-2)
        outputs.append((S * q[:, t].unsqueeze(-1)).sum(-2))
    return torch.stack(outputs, 1) * (K**-0.5 if scale is None else scale), S


def selective_scan(
    x: Tensor, dt: Tensor, A: Tensor, Bm: Tensor, Cm: Tensor, skip: Tensor, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """`scan.selective_scan`, one step at a time."""
    h = x.new_zeros(x.shape[0], *A.shape) if state is None else state
    outputs = []
    for t in range(x.shape[1]):
        step = dt[:, t].unsqueeze(-1)
        h = (step * A).exp() * h + step * x[:, t].unsqueeze(-1) * Bm[:, t].unsqueeze(1)
        outputs.append((h * Cm[:, t].unsqueeze(1)).sum(-1))
    return torch.stack(outputs, 1) + skip * x, h
