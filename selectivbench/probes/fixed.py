"""Layers whose memory is set by parameters alone: shown, so that one can see why they cannot choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from selectivbench.probes.tape import Tape
from selectivbench.signals import Role


@dataclass(frozen=True)
class Fixed:
    """A number per channel that is the same at every step, and why. value: (C,) of a layer."""

    name: str
    role: Role
    why: str
    value: Callable[[Any], Tensor]


def _retention(layer: Any) -> Tensor:
    """1 - 2^(-5 - h) for head h (RetNet, equation 8, as fla has it)."""
    return 1 - torch.exp2(-5.0 - torch.arange(layer.num_heads, dtype=torch.float32))


FIXED: Mapping[str, Fixed] = MappingProxyType(
    {
        "MultiScaleRetention": Fixed(
            "decay", "forget", "one constant per head, not even trained", _retention
        ),
        "LinearAttention": Fixed(
            "decay",
            "forget",
            "no decay: every step stays",
            lambda layer: torch.ones(layer.num_heads),
        ),
    }
)
"""By class of ``fla.layers``."""

CONVOLUTION = Fixed(
    "Δ",
    "write",
    "one step size per channel: a trained parameter, the kernel takes no input",
    lambda layer: layer.log_dt.exp(),
)


def is_convolution(module: nn.Module) -> bool:
    """Whether a module is a state space with a fixed step: a parameter ``log_dt`` (C,) and a method
    ``kernel(length)``, as the published code of S4D calls them."""
    step = getattr(module, "log_dt", None)
    kernel = getattr(module, "kernel", None)
    return isinstance(step, nn.Parameter) and step.ndim == 1 and callable(kernel)


@contextmanager
def shown(tape: Tape, path: str, layer: nn.Module, fixed: Fixed) -> Iterator[None]:
    """Note the constant for every step of what the layer is given, (B, T, D)."""

    def listen(_module: nn.Module, given: tuple[Any, ...], _output: Any) -> None:
        x = given[0]
        value = fixed.value(layer).detach().to(x.device)
        tape.note(path, fixed.name, fixed.role, value.expand(*x.shape[:2], -1), fixed=fixed.why)

    with ExitStack() as handles:
        handles.callback(layer.register_forward_hook(listen).remove)
        yield
