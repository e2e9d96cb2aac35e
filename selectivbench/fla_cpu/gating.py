"""The output gate y silu(z) of Mamba, and the gated norms that fla does not dispatch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from selectivbench.fla_cpu import gate_kernels
from selectivbench.fla_cpu.activations import wide
from selectivbench.fla_cpu.compiling import flat, run


def silu_gate(y: Tensor, z: Tensor) -> Tensor:
    """`y * silu(z)` in the dtype of y."""
    return _SiluGate.apply(wide(y), wide(z)).to(y.dtype)  # type: ignore[no-any-return,no-untyped-call]


class _SiluGate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, z: Tensor) -> Tensor:
        ctx.save_for_backward(y, z)
        out = torch.empty_like(y)
        blocks = -(-y.numel() // gate_kernels.BLOCK)
        run(gate_kernels.forward, blocks, flat(y), flat(z), flat(out))
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        y, z = ctx.saved_tensors
        dy, dz = torch.empty_like(y), torch.empty_like(z)
        blocks = -(-y.numel() // gate_kernels.BLOCK)
        arrays = [flat(i) for i in (y, z, grads[0].contiguous(), dy, dz)]
        run(gate_kernels.backward, blocks, *arrays)
        return dy, dz


def layernorm_fn(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    z: Tensor | None = None,
    eps: float = 1e-6,
    group_size: int | None = None,
    norm_before_gate: bool = True,
    is_rms_norm: bool = False,
) -> Tensor:
    """fla's gated norm over groups of channels; the gate comes before or after the norm."""
    from fla.modules.layernorm import LayerNormFunction

    groups = 1 if group_size is None else x.shape[-1] // group_size
    if z is not None and not norm_before_gate:
        x = silu_gate(x, z)
    y = LayerNormFunction.apply(x, weight, bias, None, eps, False, False, is_rms_norm, groups)
    return silu_gate(y, z) if z is not None and norm_before_gate else y


def rmsnorm_fn(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    z: Tensor | None = None,
    eps: float = 1e-6,
    group_size: int | None = None,
    norm_before_gate: bool = True,
) -> Tensor:
    return layernorm_fn(x, weight, bias, z, eps, group_size, norm_before_gate, True)
