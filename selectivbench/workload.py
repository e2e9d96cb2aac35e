"""What a timing case repeats, on the child's side: a training step, a forward pass, a decoded step.

It is one layer that is timed, without the backbone around it; a whole ``Model`` is timed whole.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from selectivbench.backbone import Backbone
from selectivbench.errors import SubmissionError
from selectivbench.tensors import tensors_in
from selectivbench.training import adam, autocast

What: TypeAlias = Literal["train", "forward", "decode"]
Decoder: TypeAlias = Callable[[Tensor, Any], tuple[Tensor, Any]]
"""(B, n, width) and the state so far (None: the beginning) to the next n outputs and the state."""

PROOF_STEPS, PROOF_TOLERANCE, ROUGH = 12, 1e-3, 5e-2
"""A decoder must give what the forward pass gives; relative to the largest output. Rough: in bfloat16,
of which a number has eight bits."""


class CannotDecode(SubmissionError):
    """The layer has no way to go on from a state, or not a right one."""


@dataclass(frozen=True)
class Load:
    """``batch`` sequences of ``length`` steps, ``width`` numbers each; ``precision`` as in training."""

    what: What
    length: int
    batch: int
    width: int
    precision: str | None = None

    def output(self, layer: nn.Module, x: Tensor) -> Tensor:
        """What a layer gives, out of the tuple that some wrap it in."""
        with autocast(x.device.type, self.precision):
            y = layer(x)
        return y[0] if isinstance(y, tuple) else y  # type: ignore[no-any-return]

    def inputs(self, device: str, batch: int | None = None, length: int | None = None) -> Tensor:
        """(B, T, width) normal numbers, the same at each call."""
        generator = torch.Generator().manual_seed(0)
        shape = (batch or self.batch, length or self.length, self.width)
        return torch.randn(shape, generator=generator).to(device)


class Workload(Protocol):
    """Something to repeat. ``refill`` brings it back to where a round begins."""

    def refill(self, repeats: int) -> None:
        """Get ready for a round of so many repeats."""

    def run(self) -> None:
        """Do it once."""

    @property
    def state_bytes(self) -> int | None:
        """Bytes that one sequence carries from step to step, where that can be seen."""


def workload(model: nn.Module, load: Load, device: str) -> Workload:
    """The workload of a built model; CannotDecode where a layer has no decoder."""
    layer = timed_layer(model)
    if load.what == "decode":
        return Decoding(decoder_of(layer.eval(), load, device), load, device)
    return (TrainingStep if load.what == "train" else Forward)(layer, load, device)


def timed_layer(model: nn.Module) -> nn.Module:
    """The first mixer of the backbone, or the whole network of a submission that is one."""
    return model.blocks[0].mixer if isinstance(model, Backbone) else model  # type: ignore[return-value]


class TrainingStep:
    """Forward, backward into inputs and parameters, and an update that changes nothing (rate 0)."""

    state_bytes = None

    def __init__(self, layer: nn.Module, load: Load, device: str) -> None:
        self._layer, self._load = layer.train(), load
        self._inputs = load.inputs(device).requires_grad_()
        self._parameters = [p for p in layer.parameters() if p.requires_grad]
        self._optimiser = adam(self._parameters, lr=0.0) if self._parameters else None

    def refill(self, repeats: int) -> None:
        """Every step begins the same."""

    def run(self) -> None:
        self._inputs.grad = None
        y = self._load.output(self._layer, self._inputs)
        y.float().square().mean().backward()  # type: ignore[no-untyped-call]
        if self._optimiser is not None:
            nn.utils.clip_grad_norm_(self._parameters, 1.0)
            self._optimiser.step()
            self._optimiser.zero_grad(set_to_none=True)


class Forward:
    """One pass without gradients over whole sequences, as a prompt is read."""

    state_bytes = None

    def __init__(self, layer: nn.Module, load: Load, device: str) -> None:
        self._layer, self._load, self._inputs = layer.eval(), load, load.inputs(device)

    def refill(self, repeats: int) -> None:
        """Every pass begins the same."""

    @torch.no_grad()
    def run(self) -> None:
        self._load.output(self._layer, self._inputs)


class Decoding:
    """One more step of every sequence; a round goes from just before ``length`` to just after it."""

    def __init__(self, decoder: Decoder, load: Load, device: str) -> None:
        self._decoder, self._inputs = decoder, load.inputs(device)
        self._step = self._inputs[:, :1].contiguous()
        self._batch, self._state = load.batch, None

    @torch.no_grad()
    def refill(self, repeats: int) -> None:
        seen = self._inputs.shape[1] - repeats // 2
        _, self._state = self._decoder(self._inputs[:, :seen], None)

    @torch.no_grad()
    def run(self) -> None:
        _, self._state = self._decoder(self._step, self._state)

    @property
    def state_bytes(self) -> int | None:
        sizes = {t.data_ptr(): t.numel() * t.element_size() for t in tensors_in(self._state)}
        return sum(sizes.values()) // self._batch


def decoder_of(layer: nn.Module, load: Load, device: str) -> Decoder:
    """The layer's own ``step(x, state)``, its cache as fla's layers have it, or torch's LSTM and GRU.

    It is held against the forward pass before it is believed; CannotDecode says what is missing.
    """
    candidate = _candidate(layer)
    if candidate is None:
        raise CannotDecode("no step(x, state), no cache as fla's layers have, no lone LSTM or GRU")

    def found(x: Tensor, state: Any) -> tuple[Tensor, Any]:
        with autocast(device, load.precision):
            return candidate(x, state)

    x = load.inputs(device, batch=2, length=PROOF_STEPS)
    try:
        with torch.no_grad():
            y, state = found(x[:, : PROOF_STEPS // 2], None)
            parts = [y]
            for t in range(PROOF_STEPS // 2, PROOF_STEPS):
                y, state = found(x[:, t : t + 1], state)
                parts.append(y)
            whole = load.output(layer, x)
            apart = float((torch.cat(parts, dim=1) - whole).abs().max() / whole.abs().max())
    except Exception as error:  # a submission's code: whatever it raises is the reason
        raise CannotDecode(f"decoding raised {type(error).__name__}: {error}") from error
    if not apart <= (PROOF_TOLERANCE if load.precision is None else ROUGH):
        raise CannotDecode(f"decoded outputs are {apart:.1e} from those of the forward pass")
    return found


def _candidate(layer: nn.Module) -> Decoder | None:
    step = getattr(layer, "step", None)
    if callable(step):
        return step  # type: ignore[no-any-return]
    names = inspect.signature(layer.forward).parameters
    if {"past_key_values", "use_cache"} <= set(names):
        return lambda x, state: _cached(layer, x, state)
    inner = [module for module in layer.children() if isinstance(module, nn.LSTM | nn.GRU)]
    return inner[0] if len(inner) == len(list(layer.children())) == 1 else None


def _cached(layer: nn.Module, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    from fla.models.utils import Cache

    cache = Cache() if cache is None else cache
    y, *_ = layer(x, past_key_values=cache, use_cache=True)
    return y, cache
