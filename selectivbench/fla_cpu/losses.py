# ruff: noqa: ARG001  (arguments are fla's; some only steer its GPU kernels)
"""fla's fused losses, which its language models use by default."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from selectivbench.fla_cpu.activations import wide
from selectivbench.fla_cpu.arguments import reject


def cross_entropy_loss(
    logits: Tensor,
    target: Tensor,
    label_smoothing: float = 0.0,
    logit_scale: float = 1.0,
    lse_square_scale: float = 0.0,
    logit_softcapping: float | None = None,
    ignore_index: int = -100,
    inplace_backward: bool = False,
    process_group: object = None,
) -> tuple[Tensor, Tensor]:
    """Loss and z-loss of every row; ignored rows count zero."""
    reject("cross_entropy_loss", process_group=process_group)
    scores = wide(logits) * logit_scale
    if logit_softcapping is not None:
        scores = logit_softcapping * torch.tanh(scores / logit_softcapping)
    loss = F.cross_entropy(
        scores, target, ignore_index=ignore_index, label_smoothing=label_smoothing, reduction="none"
    )
    z_loss = lse_square_scale * scores.logsumexp(-1).square() * (target != ignore_index)
    return loss + z_loss, z_loss.detach()


def cross_entropy_forward(self: Any, input: Tensor, target: Tensor) -> Any:
    """`FusedCrossEntropyLoss.forward`, whose own first line refuses CPU tensors."""
    loss, z_loss = cross_entropy_loss(
        input,
        target,
        self.label_smoothing,
        self.logit_scale,
        self.lse_square_scale,
        self.logit_softcapping,
        self.ignore_index,
        self.inplace_backward,
        self.process_group,
    )
    if self.reduction != "none":
        rows = (target != self.ignore_index).sum() if self.reduction == "mean" else 1
        loss, z_loss = loss.sum() / rows, z_loss.sum() / rows
    return (loss, z_loss) if self.return_z_loss else loss


def fused_linear_cross_entropy_fwd(
    x: Tensor,
    target: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    logit_scale: float = 1.0,
    logit_softcapping: float | None = None,
    num_chunks: int = 8,
    reduction: str = "mean",
    use_l2warp: bool = False,
    l2_penalty_factor: float = 1e-4,
    accumulate_grad_in_fp32: bool = True,
    process_group: object = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The loss and, as fla's autograd function expects, its gradients at once."""
    reject("fused_linear_cross_entropy", use_l2warp=use_l2warp, process_group=process_group)
    inputs = [None if p is None else p.detach().requires_grad_() for p in (x, weight, bias)]
    with torch.enable_grad():
        logits = F.linear(inputs[0], inputs[1], inputs[2])  # type: ignore[arg-type]
        loss, _ = cross_entropy_loss(
            logits, target, label_smoothing, logit_scale, 0.0, logit_softcapping, ignore_index
        )
        rows = target.ne(ignore_index).sum().clamp_min(1) if reduction == "mean" else 1
        whole = loss.sum() / rows
        grads = list(torch.autograd.grad(whole, [p for p in inputs if p is not None]))
    return whole.detach(), grads[0], grads[1], None if bias is None else grads[2]


def fused_linear_cross_entropy_bwd(
    do: Tensor, dx: Tensor, dw: Tensor | None, db: Tensor | None
) -> tuple[Tensor | None, ...]:
    return tuple(None if d is None else (d * do).to(d.dtype) for d in (dx, dw, db))
