# ruff: noqa: N803, N806  (shapes are named B, T, H, K, V as in fla)
"""The recurrences written out step by step, in the dtype given: the second witness, in float64."""

from __future__ import annotations

import torch
from torch import Tensor


def linear(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    beta: Tensor | None,
    scale: float,
    state: Tensor,
) -> tuple[Tensor, Tensor]:
    repeats = v.shape[2] // q.shape[2]
    q, k = q.repeat_interleave(repeats, 2), k.repeat_interleave(repeats, 2)
    outputs = []
    for t in range(v.shape[1]):
        if g is not None:
            decay = g[:, t].exp()
            state = state * (decay[..., None] if decay.ndim == 3 else decay[..., None, None])
        u = v[:, t]
        if beta is not None:
            u = beta[:, t, :, None] * (u - torch.einsum("bhkv,bhk->bhv", state, k[:, t]))
        state = state + k[:, t].unsqueeze(-1) * u.unsqueeze(-2)
        outputs.append(scale * torch.einsum("bhkv,bhk->bhv", state, q[:, t]))
    return torch.stack(outputs, 1), state


def dplr(
    q: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, g: Tensor, scale: float, state: Tensor
) -> tuple[Tensor, Tensor]:
    outputs = []
    for t in range(v.shape[1]):
        p = torch.einsum("bhkv,bhk->bhv", state, a[:, t])
        state = state * g[:, t].exp().unsqueeze(-1) + b[:, t].unsqueeze(-1) * p.unsqueeze(-2)
        state = state + k[:, t].unsqueeze(-1) * v[:, t].unsqueeze(-2)
        outputs.append(scale * torch.einsum("bhkv,bhk->bhv", state, q[:, t]))
    return torch.stack(outputs, 1), state


def mesa(
    b: Tensor, k: Tensor, written: Tensor, g: Tensor, lamb: Tensor, state: Tensor, iterations: int
) -> Tensor:
    matrices = []
    for t in range(b.shape[1]):
        grown = written[:, t].unsqueeze(-1) * k[:, t].unsqueeze(-2)
        state = state * g[:, t].exp()[..., None, None] + grown
        matrices.append(state + torch.diag_embed(lamb))
    A = torch.stack(matrices, 1)
    x = _conjugate_gradients(A.detach(), b.detach(), iterations)
    residual = b - torch.einsum("bthij,bthi->bthj", A, x)
    residual.register_hook(lambda dx: _conjugate_gradients(A.detach(), dx, iterations))
    return x + residual - residual.detach()


def _conjugate_gradients(A: Tensor, b: Tensor, iterations: int) -> Tensor:
    x, r, p = torch.zeros_like(b), b, b
    for _ in range(iterations):
        image = torch.einsum("bthij,bthi->bthj", A, p)
        size = r.square().sum(-1, keepdim=True)
        step = size / ((p * image).sum(-1, keepdim=True) + 1e-5)
        x, r = x + step * p, r - step * image
        p = r + r.square().sum(-1, keepdim=True) / (size + 1e-5) * p
    return x


def scan(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, skip: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    outputs = []
    for t in range(x.shape[1]):
        step = dt[:, t].unsqueeze(-1)
        state = (step * A).exp() * state + step * x[:, t].unsqueeze(-1) * B[:, t].unsqueeze(1)
        outputs.append((state * C[:, t].unsqueeze(1)).sum(-1) + skip * x[:, t])
    return torch.stack(outputs, 1), state


def attention(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, scale: float, window: int | None
) -> Tensor:
    repeats, T = q.shape[2] // k.shape[2], q.shape[1]
    k, v = k.repeat_interleave(repeats, 2), v.repeat_interleave(repeats, 2)
    sums = g.cumsum(1)
    s = torch.einsum("bihd,bjhd->bhij", q, k) * scale
    s = s + (sums.unsqueeze(2) - sums.unsqueeze(1)).permute(0, 3, 1, 2)
    gap = torch.arange(T).unsqueeze(1) - torch.arange(T)
    hidden = (gap < 0) | (gap >= (T if window is None else window))
    return torch.einsum("bhij,bjhd->bihd", s.masked_fill(hidden, -torch.inf).softmax(-1), v)
