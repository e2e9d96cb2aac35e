# ruff: noqa: ARG001  (arguments are fla's; some only steer its GPU kernels)
"""CPU versions of the rotary embedding and the cumulative sum."""

from __future__ import annotations

import torch
from torch import Tensor

from selectivbench.fla_cpu.activations import wide


def rotary_embedding_fwdbwd(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    seqlen_offsets: int | Tensor = 0,
    cu_seqlens: Tensor | None = None,
    interleaved: bool = False,
    inplace: bool = False,
    conjugate: bool = False,
    chunk_indices: Tensor | None = None,
) -> Tensor:
    R = cos.shape[1]
    positions = _positions(x.shape[0], x.shape[1], seqlen_offsets, cu_seqlens)
    c, s = (wide(i)[positions.clamp(0, cos.shape[0] - 1)].unsqueeze(2) for i in (cos, sin))
    s = -s if conjugate else s
    xf = wide(x)
    a, b = (xf[..., 0 : 2 * R : 2], xf[..., 1 : 2 * R : 2]) if interleaved else (
        xf[..., :R], xf[..., R : 2 * R])  # fmt: skip
    turned = (a * c - b * s, a * s + b * c)
    rotated = torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)
    y = torch.cat((rotated, xf[..., 2 * R :]), -1).to(x.dtype)
    return x.copy_(y) if inplace else y


def _positions(B: int, T: int, offsets: int | Tensor, cu_seqlens: Tensor | None) -> Tensor:
    """The position (B, T) of every step in its own sequence."""
    steps = torch.arange(T).expand(B, T)
    if cu_seqlens is None:
        return steps + (offsets if isinstance(offsets, int) else offsets.view(-1, 1))
    which = torch.searchsorted(cu_seqlens, steps[0], right=True) - 1
    start = cu_seqlens[which] - (offsets if isinstance(offsets, int) else offsets[which])
    return (steps[0] - start).expand(B, T)


def chunk_global_cumsum(
    s: Tensor,
    reverse: bool = False,
    cu_seqlens: Tensor | None = None,
    scale: float | None = None,
    output_dtype: torch.dtype | None = torch.float32,
) -> Tensor:
    parts = [s] if cu_seqlens is None else s.split_with_sizes(cu_seqlens.diff().tolist(), 1)
    sums = [wide(p).flip(1).cumsum(1).flip(1) if reverse else wide(p).cumsum(1) for p in parts]
    out = torch.cat(sums, 1) * (1.0 if scale is None else scale)
    return out.to(output_dtype or s.dtype)
