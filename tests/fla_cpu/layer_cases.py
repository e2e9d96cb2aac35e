"""The layers that are compared, and how one is run: shared by both sides of every comparison."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

D, HEADS, BATCH = 32, 2, 1
HEAD = D // HEADS
BF16, FP32 = "bfloat16", "float32"


class Case(NamedTuple):
    """One run: a layer of the table, a length, a dtype; `gate` scales its log gates."""

    layer: str
    length: int = 100
    dtype: str = FP32
    gate: float = 1.0

    def __str__(self) -> str:
        gate = "" if self.gate == 1.0 else f"-gate{self.gate}"
        return f"{self.layer}-T{self.length}-{self.dtype}{gate}"


def _layers() -> dict[str, Callable[[], nn.Module]]:
    from fla import layers
    from fla.layers.rwkv6 import RWKV6Attention
    from fla.layers.simple_gla import SimpleGatedLinearAttention

    common: dict[str, Any] = {"hidden_size": D, "layer_idx": 0}
    heads = {**common, "num_heads": HEADS}
    sized = {**heads, "head_dim": HEAD}
    based: dict[str, Any] = {
        "hidden_size": D, "num_heads": HEADS, "num_key_value_heads": HEADS, "mode": "parallel",
    }  # fmt: skip
    return {
        "GatedLinearAttention": lambda: layers.GatedLinearAttention(
            **heads, expand_k=1.0, use_short_conv=True
        ),
        "SimpleGatedLinearAttention": lambda: SimpleGatedLinearAttention(**heads),
        "MultiScaleRetention": lambda: layers.MultiScaleRetention(**heads),
        "LinearAttention": lambda: layers.LinearAttention(**heads),
        "HGRNAttention": lambda: layers.HGRNAttention(**common),
        "HGRN2Attention": lambda: layers.HGRN2Attention(**common, expand_ratio=HEAD),
        "DeltaNet": lambda: layers.DeltaNet(**heads),
        "GatedDeltaNet": lambda: layers.GatedDeltaNet(**sized, expand_v=2),
        "GatedDeltaProduct": lambda: layers.GatedDeltaProduct(**sized, expand_v=1),
        "KimiDeltaAttention": lambda: layers.KimiDeltaAttention(**sized),
        "Comba": lambda: layers.Comba(**sized, expand_v=1),
        "RWKV6Attention": lambda: RWKV6Attention(
            **heads, proj_low_rank_dim=8, gate_low_rank_dim=8
        ),
        "RWKV7Attention": lambda: layers.RWKV7Attention(
            **common, head_dim=HEAD, num_hidden_layers=2, decay_low_rank_dim=8,
            gate_low_rank_dim=8, a_low_rank_dim=8,
        ),
        "MesaNet": lambda: layers.MesaNet(**sized),
        "GatedSlotAttention": lambda: layers.GatedSlotAttention(**heads, num_slots=16),
        "ForgettingAttention": lambda: layers.ForgettingAttention(**heads),
        "PaTHAttention": lambda: layers.PaTHAttention(**heads),
        "Attention": lambda: layers.Attention(**heads),
        "BasedLinearAttention": lambda: layers.BasedLinearAttention(**based),
        "ReBasedLinearAttention": lambda: layers.ReBasedLinearAttention(**based),
        "Mamba": lambda: layers.Mamba(**common, intermediate_size=2 * D),
        "Mamba2": lambda: layers.Mamba2(**common, head_dim=HEAD, state_size=16, chunk_size=64),
    }  # fmt: skip


NAMES = (
    "GatedLinearAttention", "SimpleGatedLinearAttention", "MultiScaleRetention", "LinearAttention",
    "HGRNAttention", "HGRN2Attention", "DeltaNet", "GatedDeltaNet", "GatedDeltaProduct",
    "KimiDeltaAttention", "Comba", "RWKV6Attention", "RWKV7Attention", "MesaNet",
    "GatedSlotAttention", "ForgettingAttention", "PaTHAttention", "Attention",
    "BasedLinearAttention", "ReBasedLinearAttention", "Mamba", "Mamba2",
)  # fmt: skip
# The parameter that moves the log gates, for the negative control.
GATES = {"GatedLinearAttention": "gk_proj.1.bias", "GatedDeltaNet": "A_log", "Mamba2": "A_log"}


def build(name: str, seed: int = 0) -> nn.Module:
    """The layer with every parameter moved a little: some start at zero and would hide others."""
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fla's remarks on its RWKV-7 and on missing packages
        module = _layers()[name]()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return module


def run(case: Case, device: str = "cpu") -> dict[str, Tensor]:
    """Output, input gradient and parameter gradients of one training step, in float32."""
    module = build(case.layer)
    torch.manual_seed(1)
    x, dy = torch.randn(2, BATCH, case.length, D)
    if case.gate != 1.0:
        parameter = module.get_parameter(GATES[case.layer])
        moved = torch.log(torch.tensor(case.gate)) if GATES[case.layer] == "A_log" else 0.0
        with torch.no_grad():
            parameter.copy_(
                (parameter + moved) if GATES[case.layer] == "A_log" else parameter * case.gate
            )
    dtype = getattr(torch, case.dtype)
    module = module.to(device, dtype).train()
    x = x.to(device, dtype).requires_grad_()
    y = module(x)
    y = y[0] if isinstance(y, tuple) else y
    y.backward(dy.to(device, dtype))
    grads = {f"d {n}": p.grad for n, p in module.named_parameters() if p.grad is not None}
    results = {"y": y, "dx": x.grad, **grads}
    return {n: t.detach().float().cpu() for n, t in results.items()}


def difference(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> tuple[str, float]:
    """The tensor with the largest error, and that error relative to the tensor's largest entry.

    A gradient that is zero but for rounding (a thousandth of the largest one) is not divided by
    its own size: some gradients vanish exactly for sequences of one step.
    """
    if set(ours) != set(theirs):
        return f"only on one side: {sorted(set(ours) ^ set(theirs))}", float("inf")
    floor = 1e-3 * max(t.abs().max().item() for t in theirs.values())
    errors = {
        n: ((ours[n] - t).abs().max() / t.abs().max().clamp_min(floor)).item()
        for n, t in theirs.items()
    }
    worst = max(errors, key=lambda n: float("inf") if errors[n] != errors[n] else errors[n])
    return worst, errors[worst]
