"""The gates of fla's layers: where each passes, and what its number means.

A gate's *raw* form is what a projection gives; the layer (or its kernel) maps it to the gate's value,
channel by channel. With the map and its inverse a hook on the projection can read the value and put
another in its place, whichever kernel uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selectivbench.probes.tape import Tape
from selectivbench.signals import Role

Map: TypeAlias = Callable[[Any, Tensor], Tensor]
"""(layer, numbers) to numbers of the same shape."""
FARTHEST = 60.0
"""Raw values stay within this: exp(-60) is nothing, and no kernel overflows."""
RWKV7_DECAY = -0.6065306597126334
"""-exp(-1/2), the least log decay of one step (RWKV-7, equation 12)."""


@dataclass(frozen=True)
class Gate:
    """One gate of a layer.

    places: the submodule whose output (B, T, C) is the raw form, the first that the layer has; none
    where the layer itself calls ``softplus`` and what that gives is the gate.
    value, raw: from the raw form to the gate and back. kept: from the gate to the share of the state
    that outlives the step, where the gate itself is not that share.
    """

    name: str
    role: Role
    places: tuple[str, ...]
    value: Map
    raw: Map
    kept: Map | None = None

    def passed(self, tape: Tape, path: str, layer: nn.Module, raw: Tensor) -> Tensor:
        """Take the gate down; the raw form of what stands in its place."""
        value = self.value(layer, raw.float())
        if self.kept is not None:
            tape.note(path, f"decay of {self.name}", "forget", self.kept(layer, value))
        put = tape.gate(path, self.name, self.role, value)
        return raw if put is value else self.raw(layer, put).clamp(-FARTHEST, FARTHEST).to(raw)


def unsoftplus(value: Tensor) -> Tensor:
    """The inverse of softplus."""
    return value + torch.log(-torch.expm1(-value))


def unlogsigmoid(value: Tensor) -> Tensor:
    """The inverse of log sigmoid."""
    return value - torch.log(-torch.expm1(value))


def _exp(_: Any, value: Tensor) -> Tensor:
    return value.exp()


def _strength(name: str = "β", place: str = "b_proj") -> Gate:
    """How far a delta rule goes: sigmoid, twice that where eigenvalues may be negative."""

    def most(layer: Any) -> float:
        return 2.0 if getattr(layer, "allow_neg_eigval", False) else 1.0

    return Gate(
        name,
        "write",
        (place,),
        lambda layer, raw: most(layer) * raw.sigmoid(),
        lambda layer, value: torch.logit(value / most(layer)),
    )


def _step_decay() -> Gate:
    """Mamba-2's decay, g = -exp(A) softplus(a + bias), one per head (Gated DeltaNet, section 3)."""

    def rate(layer: Any) -> Tensor:
        return layer.A_log.float().exp()  # type: ignore[no-any-return]

    return Gate(
        "g",
        "forget",
        ("a_proj",),
        lambda layer, raw: -rate(layer) * F.softplus(raw + layer.dt_bias.float()),
        lambda layer, value: unsoftplus(-value / rate(layer)) - layer.dt_bias.float(),
        kept=_exp,
    )


def _row_decay_value(layer: Any, raw: Tensor) -> Tensor:
    """Kimi Delta Attention: the same per row of the memory, or bounded (fla's ``lower_bound``)."""
    rate = _row_rate(layer)
    raw = raw + layer.dt_bias.float()
    if layer.lower_bound is None:
        return -rate * F.softplus(raw)
    return layer.lower_bound * torch.sigmoid(rate * raw)  # type: ignore[no-any-return]


def _row_decay_raw(layer: Any, value: Tensor) -> Tensor:
    rate, bias = _row_rate(layer), layer.dt_bias.float()
    if layer.lower_bound is None:
        raw = unsoftplus(-value / rate)
    else:
        raw = torch.logit(value / layer.lower_bound) / rate
    return raw - bias  # type: ignore[no-any-return]


def _row_rate(layer: Any) -> Tensor:
    return layer.A_log.float().exp().repeat_interleave(layer.head_k_dim)  # type: ignore[no-any-return]


def _log_sigmoid(*places: str) -> Gate:
    """A log decay, divided where the layer slows forgetting down (GLA, section 4.4)."""

    def slower(layer: Any) -> float:
        return float(getattr(layer, "gate_logit_normalizer", 1.0))

    def value(layer: Any, raw: Tensor) -> Tensor:
        least = getattr(layer, "clamp_min", None)
        return (F.logsigmoid(raw) / slower(layer)).clamp(min=-torch.inf if least is None else least)

    return Gate(
        "g",
        "forget",
        places,
        value,
        lambda layer, value: unlogsigmoid(value * slower(layer)),
        kept=_exp,
    )


_MAMBA_STEP = Gate(
    "Δ",
    "write",
    ("dt_proj",),
    lambda _, raw: F.softplus(raw),
    lambda _, value: unsoftplus(value),
    # (B, T, C): the mean over a channel's sixteen numbers, which fade at rates of their own
    kept=lambda layer, value: torch.stack(
        [torch.exp(-value * rate) for rate in layer.A_log.float().exp().unbind(-1)]
    ).mean(0),
)
_MAMBA2_STEP = Gate(
    "Δ",
    "write",
    (),
    lambda layer, value: value.clamp(*layer.dt_limit),
    lambda _, value: value,
    kept=lambda layer, value: torch.exp(-value * layer.A_log.float().exp()),
)

GATES: Mapping[str, tuple[Gate, ...]] = MappingProxyType(
    {
        "Mamba": (_MAMBA_STEP,),
        "Mamba2": (_MAMBA2_STEP,),
        "GatedLinearAttention": (_log_sigmoid("gk_proj"),),
        "HGRN2Attention": (_log_sigmoid("f_conv1d", "f_proj"),),
        "RWKV7Attention": (
            Gate(
                "w",
                "forget",
                ("w_lora",),
                lambda _, raw: RWKV7_DECAY * raw.sigmoid(),
                lambda _, value: torch.logit(value / RWKV7_DECAY),
                kept=_exp,
            ),
            _strength("a", "a_lora"),
        ),
        "KimiDeltaAttention": (
            Gate("g", "forget", ("f_proj",), _row_decay_value, _row_decay_raw, kept=_exp),
            _strength(),
        ),
        "GatedDeltaNet": (_step_decay(), _strength()),
        "GatedDeltaProduct": (_step_decay(), _strength()),
        "DeltaNet": (_strength(),),
        "MesaNet": (_log_sigmoid("a_proj"), _strength()),
        "ForgettingAttention": (_log_sigmoid("f_proj"),),
    }
)
"""By class of ``fla.layers``; subclasses are theirs too."""


@contextmanager
def hooked(tape: Tape, path: str, layer: nn.Module, gates: tuple[Gate, ...]) -> Iterator[None]:
    """Listen to those gates of a layer that come out of a submodule; an option may leave one out."""

    def listener(gate: Gate) -> Callable[[nn.Module, Any, Any], Any]:
        def listen(_module: nn.Module, _inputs: Any, output: Any) -> Any:
            if isinstance(output, tuple):  # a short convolution, with its cache
                return (gate.passed(tape, path, layer, output[0]), *output[1:])
            return gate.passed(tape, path, layer, output)

        return listen

    with ExitStack() as handles:
        for gate in gates:
            module = next((m for m in (getattr(layer, p, None) for p in gate.places) if m), None)
            if module is not None:
                handles.callback(module.register_forward_hook(listener(gate)).remove)
        yield
