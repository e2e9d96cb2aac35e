# ruff: noqa: ARG001  (arguments are fla's; some only steer its GPU kernels)
"""CPU versions of the elementwise functions that fla dispatches (`fla.modules.activations`).

As everywhere in this package, a function has fla's name and arguments. fla's own autograd
functions call them, so each comes as one for the forward pass and one for the backward pass.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """float64 as it is, all else in float32, contiguous: what everything here computes in."""
    return x.contiguous() if x.dtype == torch.float64 else x.float().contiguous()


def sigmoid_fwd(x: Tensor, output_contiguous: bool = False) -> Tensor:
    return torch.sigmoid(wide(x)).to(x.dtype)


def sigmoid_bwd(x: Tensor, dy: Tensor, output_contiguous: bool = False) -> Tensor:
    s = torch.sigmoid(wide(x))
    return (wide(dy) * s * (1 - s)).to(x.dtype)


def elu_p1_fwd(x: Tensor) -> Tensor:
    return (F.elu(wide(x)) + 1).to(x.dtype)


def elu_p1_bwd(x: Tensor, dy: Tensor) -> Tensor:
    return (wide(dy) * wide(x).clamp(max=0).exp()).to(x.dtype)


def logsigmoid_fwd(x: Tensor, temperature: float = 1.0, output_contiguous: bool = False) -> Tensor:
    return (F.logsigmoid(wide(x)) / temperature).to(x.dtype)


def logsigmoid_bwd(
    x: Tensor, dy: Tensor, temperature: float = 1.0, output_contiguous: bool = False
) -> Tensor:
    return (wide(dy) * torch.sigmoid(-wide(x)) / temperature).to(x.dtype)


def swish_fwd(x: Tensor, output_contiguous: bool = False) -> Tensor:
    return F.silu(wide(x)).to(x.dtype)


def swish_bwd(x: Tensor, dy: Tensor, output_contiguous: bool = False) -> Tensor:
    return torch.ops.aten.silu_backward(wide(dy), wide(x)).to(x.dtype)  # type: ignore[no-any-return]


def swiglu_fwd(x: Tensor, y: Tensor, output_contiguous: bool = False) -> Tensor:
    return (F.silu(wide(x)) * wide(y)).to(x.dtype)


def swiglu_fwdbwd(
    x: Tensor, y: Tensor, g: Tensor, use_weight: bool = False, output_contiguous: bool = False
) -> tuple[Tensor, ...]:
    xf, yf, gf = wide(x), wide(y), wide(g)
    s = F.silu(xf)
    dx = torch.ops.aten.silu_backward(gf * yf, xf).to(x.dtype)
    dy = (gf * s).to(y.dtype)
    return (dx, dy, (s * yf).to(x.dtype)) if use_weight else (dx, dy)
