"""The residual stack that a submitted mixer is put into, and its sizing.

Lite: linear encoder, blocks of pre-norm mixer and pre-norm SwiGLU MLP with residuals, final norm,
linear decoder. The MLP's width fills each block up to the profile's budget, so that entries differ
in their mixer and not in their size. Paper: the reference's stack, layer norm after the residual and
no MLP but the mixer's own (SelectivBench, experimental setup).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selectivbench.errors import SubmissionError, explain
from selectivbench.profiles import ModelSize


@dataclass(frozen=True)
class MixerSpec:
    """What a submitted mixer is told. ``n_heads`` is a hint that divides d_model, head size >= 16;
    ``d_state`` one for a state of free size, or None where the size is the submission's to choose."""

    d_model: int
    n_layers: int
    layer_index: int
    max_length: int
    n_heads: int
    d_state: int | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class ModelSpec(MixerSpec):
    """What a submitted whole network is told: the mixer's facts and the task's widths."""

    n_inputs: int
    n_classes: int


MixerFactory = Callable[[MixerSpec], nn.Module]


class SwiGLU(nn.Module):
    """Gated MLP (Shazeer 2020, arXiv 2002.05202), without biases: 3 * d_model * width parameters."""

    def __init__(self, d_model: int, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(d_model, width, bias=False)
        self.up = nn.Linear(d_model, width, bias=False)
        self.down = nn.Linear(width, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        down: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return down


class Block(nn.Module):
    """One mixer with residual and norm; pre-norm with an MLP (lite), or post-norm without (paper)."""

    def __init__(self, mixer: nn.Module, size: ModelSize) -> None:
        super().__init__()
        self.mixer = mixer
        self.norm = nn.LayerNorm(size.d_model)
        self.post_norm = size.post_norm
        self.dropout = nn.Dropout(size.dropout)
        width = fill_width(mixer, size)
        self.mlp_norm = nn.LayerNorm(size.d_model) if width else None
        self.mlp = SwiGLU(size.d_model, width) if width else None

    def forward(self, x: Tensor) -> Tensor:
        if self.post_norm:
            return self.norm(x + self.dropout(mix(self.mixer, x)))  # type: ignore[no-any-return]
        x = x + self.dropout(mix(self.mixer, self.norm(x)))
        if self.mlp is not None and self.mlp_norm is not None:
            x = x + self.dropout(self.mlp(self.mlp_norm(x)))
        return x


class Backbone(nn.Module):
    """(B, T, n_inputs) float32 to (B, T, n_classes) logits."""

    def __init__(self, factory: MixerFactory, spec: ModelSpec, size: ModelSize) -> None:
        super().__init__()
        self.encoder = nn.Linear(spec.n_inputs, size.d_model)
        self.blocks = nn.ModuleList(
            Block(_made(factory, _layer_spec(spec, index)), size) for index in range(size.n_layers)
        )
        self.norm = nn.Identity() if size.post_norm else nn.LayerNorm(size.d_model)
        self.decoder = nn.Linear(size.d_model, spec.n_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.encoder(x)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.decoder(self.norm(x))
        return logits

    @property
    def oversize(self) -> bool:
        """Whether a mixer alone is over the block's budget, so that no MLP could fill it exactly."""
        return any(block.mlp is None and not block.post_norm for block in self.blocks)


def mix(mixer: nn.Module, x: Tensor) -> Tensor:
    """Call a mixer; unwrap a tuple (fla layers return one) and check the shape it promised."""
    y = mixer(x)
    if isinstance(y, tuple):
        y = y[0]
    if not isinstance(y, Tensor) or y.shape != x.shape:
        got = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        raise SubmissionError(
            explain(
                "Mixer's output", got, f"{tuple(x.shape)}, the shape of its input (B, T, d_model)"
            )
        )
    return y


def fill_width(mixer: nn.Module, size: ModelSize) -> int:
    """Width of the SwiGLU that brings a block to its budget; 0 where the mixer leaves no room."""
    if not size.block_budget:
        return 0
    left = size.block_budget - count(mixer) - 4 * size.d_model  # two norms
    return max(0, round(left / (3 * size.d_model)))


def count(module: nn.Module) -> int:
    """Trainable parameters in real numbers, shared ones once; a complex number is two."""
    trained = (p for p in module.parameters() if p.requires_grad)
    return sum(p.numel() * (2 if p.is_complex() else 1) for p in trained)


def _layer_spec(spec: ModelSpec, index: int) -> MixerSpec:
    shared = (spec.d_model, spec.n_layers, index, spec.max_length, spec.n_heads)
    return MixerSpec(*shared, d_state=spec.d_state)


def _made(factory: MixerFactory, spec: MixerSpec) -> nn.Module:
    module = factory(spec)
    if not isinstance(module, nn.Module):
        raise SubmissionError(explain("Mixer(spec)", type(module).__name__, "a torch.nn.Module"))
    return module


def build(
    kind: str, factory: Callable[..., nn.Module], spec: ModelSpec, size: ModelSize
) -> nn.Module:
    """The whole network of a submission: its mixer in the backbone, or its own Model(spec)."""
    if kind == "mixer":
        return Backbone(factory, spec, size)
    module = factory(spec)
    if not isinstance(module, nn.Module):
        raise SubmissionError(explain("Model(spec)", type(module).__name__, "a torch.nn.Module"))
    return module


def check_logits(logits: object, batch: int, steps: int, n_classes: int) -> Tensor:
    """The network's answer as a tensor of the promised shape, or a SubmissionError."""
    if isinstance(logits, tuple):
        logits = logits[0]
    wanted = (batch, steps, n_classes)
    if not isinstance(logits, torch.Tensor) or tuple(logits.shape) != wanted:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise SubmissionError(explain("the model's output", got, f"{wanted} (B, T, n_classes)"))
    return logits
