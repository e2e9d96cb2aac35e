# ruff: noqa: ARG001  (arguments are fla's; some only steer its GPU kernels)
"""CPU versions of the norms that fla dispatches: L2, RMS, layer and group norm, and gated ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from selectivbench.fla_cpu import norm_kernels
from selectivbench.fla_cpu.activations import wide
from selectivbench.fla_cpu.compiling import flat, run

Two = tuple[Tensor, Tensor]


def l2norm_fwd(x: Tensor, eps: float = 1e-6, output_dtype: torch.dtype | None = None) -> Two:
    D = x.shape[-1]
    # An RMS norm with weight 1 / sqrt(D) is an L2 norm.
    weight = torch.full((D,), D**-0.5, dtype=wide(x[:0]).dtype)
    y, _, rstd = _norm(wide(x).view(-1, D), None, weight, None, eps / D, True, 0, 1)
    return y.view(x.shape).to(output_dtype or x.dtype), (rstd * D**-0.5).view(x.shape[:-1])


def l2norm_bwd(y: Tensor, rstd: Tensor, dy: Tensor, eps: float = 1e-6) -> Tensor:
    along = (wide(dy) * wide(y)).sum(-1, keepdim=True)
    return ((wide(dy) - along * wide(y)) * rstd.unsqueeze(-1)).view(y.shape).to(y.dtype)


def layer_norm_fwd(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float = 1e-5,
    residual: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    residual_dtype: torch.dtype | None = None,
    is_rms_norm: bool = False,
    num_groups: int = 1,
) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
    total = _with_residual(x, residual, residual_dtype)
    y, mean, rstd = _norm(wide(total), None, weight, bias, eps, is_rms_norm, 0, num_groups)
    return y.to(out_dtype or x.dtype), None if is_rms_norm else mean, rstd, total


def layer_norm_bwd(
    dy: Tensor,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None = None,
    rstd: Tensor | None = None,
    dres: Tensor | None = None,
    has_residual: bool = False,
    is_rms_norm: bool = False,
    x_dtype: torch.dtype | None = None,
    recompute_output: bool = False,
    num_groups: int = 1,
) -> tuple[Tensor | None, ...]:
    dx, _, dw, db = _norm_grad(dy, x, None, weight, bias, mean, rstd, is_rms_norm, 0, num_groups)
    out = (*_residual_grads(dx, dres, x, x_dtype, has_residual, (dw, db)),)
    if not recompute_output:
        return out
    y = _renorm(x, weight, bias, mean, rstd, num_groups)
    return (*out, y.to(dy.dtype))


def layer_norm_gated_fwd(
    x: Tensor,
    g: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    activation: str = "swish",
    eps: float = 1e-5,
    residual: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    residual_dtype: torch.dtype | None = None,
    is_rms_norm: bool = False,
) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
    total, act = _with_residual(x, residual, residual_dtype), _ACTIVATIONS[activation]
    y, mean, rstd = _norm(wide(total), wide(g), weight, bias, eps, is_rms_norm, act, 1)
    return y.to(out_dtype or x.dtype), None if is_rms_norm else mean, rstd, total


def layer_norm_gated_bwd(
    dy: Tensor,
    x: Tensor,
    g: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    activation: str = "swish",
    eps: float = 1e-5,
    mean: Tensor | None = None,
    rstd: Tensor | None = None,
    dresidual: Tensor | None = None,
    has_residual: bool = False,
    is_rms_norm: bool = False,
    x_dtype: torch.dtype | None = None,
    recompute_output: bool = False,
) -> tuple[Tensor | None, ...]:
    act = _ACTIVATIONS[activation]
    dx, dg, dw, db = _norm_grad(dy, x, g, weight, bias, mean, rstd, is_rms_norm, act, 1)
    dx_out, *_, dres = _residual_grads(dx, dresidual, x, x_dtype, has_residual, (dw, db))
    out = (dx_out, dg.to(x_dtype or g.dtype), dw, db, dres)
    if not recompute_output:
        return out
    gate = wide(g).sigmoid() * (wide(g) if act == 1 else 1)
    return (*out, (_renorm(x, weight, bias, mean, rstd, 1) * gate).to(dy.dtype))


_ACTIVATIONS = {"swish": 1, "silu": 1, "sigmoid": 2}


def _with_residual(x: Tensor, residual: Tensor | None, dtype: torch.dtype | None) -> Tensor:
    if residual is not None:
        return (wide(x) + wide(residual)).to(residual.dtype)
    return x if dtype is None or dtype == x.dtype else x.to(dtype)


def _residual_grads(
    dx: Tensor,
    dres: Tensor | None,
    x: Tensor,
    x_dtype: torch.dtype | None,
    has_residual: bool,
    weights: tuple[Tensor | None, Tensor | None],
) -> tuple[Tensor | None, ...]:
    dx = dx if dres is None else dx + wide(dres)
    return dx.to(x_dtype or x.dtype), *weights, dx.to(x.dtype) if has_residual else None


def _renorm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Any, rstd: Any, groups: int
) -> Tensor:
    """The output before any gate, from what the forward pass kept."""
    y: Tensor = wide(x) if mean is None else wide(x) - mean[:, None]
    y = (y * rstd[:, None]).view(-1, groups, x.shape[-1])
    y = y if weight is None else y * wide(weight).view(groups, -1)
    y = y if bias is None else y + wide(bias).view(groups, -1)
    return y.view(x.shape)


def _norm(
    x: Tensor,
    g: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    rms: bool,
    act: int,
    groups: int,
) -> tuple[Tensor, Tensor, Tensor]:
    R, D = x.shape
    y, mean, rstd = torch.empty_like(x), x.new_empty(R), x.new_empty(R)
    arrays = [flat(i) for i in (x, x if g is None else g, *_affine(weight, bias, x, groups))]
    out = [flat(i) for i in (y, mean, rstd)]
    blocks = -(-R // norm_kernels.ROWS)
    run(norm_kernels.forward, blocks, (R, D, groups), eps, rms, act, *arrays, *out)
    return y, mean, rstd


def _norm_grad(
    dy: Tensor,
    x: Tensor,
    g: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    rstd: Tensor | None,
    rms: bool,
    act: int,
    groups: int,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    (R, D), xf = x.shape, wide(x)
    blocks = -(-R // norm_kernels.ROWS)
    dx, dg = torch.empty_like(xf), torch.empty_like(xf) if act else xf.new_empty(0)
    dw, db = xf.new_zeros(blocks, groups * D), xf.new_zeros(blocks, groups * D)
    level = xf.new_empty(0) if mean is None else wide(mean)
    given = (
        xf,
        xf if g is None else wide(g),
        *_affine(weight, bias, xf, groups),
        level,
        rstd,
        wide(dy),
    )
    arrays = [flat(i) for i in (*given, dx, dg, dw, db) if i is not None]
    run(norm_kernels.backward, blocks, (R, D, groups), rms, act, *arrays)
    return dx, dg, _summed(dw, weight), _summed(db, bias)


def _summed(parts: Tensor, parameter: Tensor | None) -> Tensor | None:
    """The gradient of a weight from those of the blocks of rows."""
    if parameter is None:
        return None
    return parts.sum(0).view(parameter.shape).to(parameter.dtype)


def _affine(weight: Tensor | None, bias: Tensor | None, x: Tensor, groups: int) -> Two:
    """Weight and bias, or ones and zeros; the kernel always applies them."""
    n = groups * x.shape[-1]
    return (
        x.new_ones(n) if weight is None else weight.to(x.dtype).contiguous(),
        x.new_zeros(n) if bias is None else bias.to(x.dtype).contiguous(),
    )
