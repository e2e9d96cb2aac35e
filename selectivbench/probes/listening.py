"""Hear what a model does in one forward pass, or let it run with other gate values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, TypeAlias, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from selectivbench.backbone import Backbone
from selectivbench.errors import SubmissionError, explain
from selectivbench.probes import attention, fixed
from selectivbench.probes.gates import GATES, Gate, hooked
from selectivbench.probes.recurrent import stepped
from selectivbench.probes.tape import Tape
from selectivbench.signals import Signal

Own: TypeAlias = Callable[[nn.Module, Tensor], Mapping[str, Tensor]]
"""A submission's ``probe(module, x)``: (B, T) or (B, T, C) of each name, for an input (B, T, D)."""
Result = TypeVar("Result")


def listen(
    model: nn.Module, forward: Callable[[], Result], own: Own | None = None
) -> tuple[tuple[Signal, ...], Result]:
    """All that the known layers do while ``forward`` runs the model once, and what that gave.

    own: shows what an unknown layer does; called with each mixer, or the whole model, and its input.
    SubmissionError where there is nothing to hear.
    """
    tape = Tape()
    with _attached(model, tape), _own(model, tape, own):
        result = forward()
    if not tape.signals:
        known = ", ".join((*GATES, *fixed.FIXED, "torch's LSTM, GRU and attention"))
        raise SubmissionError(
            explain("layers to probe", "none", known, "define probe(module, x) in the submission")
        )
    return tape.signals, result


def steer(model: nn.Module, forward: Callable[[], Result], forced: Mapping[str, Tensor]) -> Result:
    """What ``forward`` gives with other values in the place of some gates, by key; see ``Tape``."""
    tape = Tape(forced)
    with _attached(model, tape):
        result = forward()
    tape.require_all_used()
    return result


@contextmanager
def _attached(model: nn.Module, tape: Tape) -> Iterator[None]:
    """Ears on every known layer, gone at the end."""
    with ExitStack() as ears:
        running = ears.enter_context(_followed(model))
        for path, module in model.named_modules():
            for ear in _ears(tape, short(path), module):
                ears.enter_context(ear)
        ears.enter_context(_Calls(tape, running))
        yield


def _ears(tape: Tape, path: str, module: nn.Module) -> Iterator[AbstractContextManager[None]]:
    if isinstance(module, nn.LSTM | nn.GRU):
        yield stepped(tape, path, module)
    if isinstance(module, nn.MultiheadAttention):
        yield attention.multihead(tape, path, module)
    if fixed.is_convolution(module):
        yield fixed.shown(tape, path, module, fixed.CONVOLUTION)
    name = _fla_layer(module)
    if name in GATES:
        yield hooked(tape, path, module, GATES[name])
    if name in fixed.FIXED:
        yield fixed.shown(tape, path, module, fixed.FIXED[name])
    if name == "ForgettingAttention":
        yield attention.forgetting(tape, path, module)
    if name == "Attention":
        yield attention.rotated(tape, path, module)


def short(path: str) -> str:
    """A module's path without what all mixers share.

    >>> short("blocks.1.mixer.lstm"), short("blocks.0.mixer"), short("")
    ('1.lstm', '0', 'model')
    """
    parts = [part for part in path.split(".") if part not in ("blocks", "mixer")]
    return ".".join(parts) or "model"


def _fla_layer(module: nn.Module) -> str:
    """The class of ``fla.layers`` that a module is, or ""; fla is there if a submission uses it."""
    layers = sys.modules.get("fla.layers")
    names = (kind.__name__ for kind in type(module).__mro__)
    return next((n for n in names if isinstance(module, getattr(layers, n, ()))), "")


@contextmanager
def _followed(model: nn.Module) -> Iterator[list[tuple[str, nn.Module]]]:
    """Paths and modules that are running, the innermost last."""
    running: list[tuple[str, nn.Module]] = []

    def enter(path: str) -> Callable[[nn.Module, Any], None]:
        return lambda module, _: running.append((path, module))

    def leave(*_: Any) -> None:
        running.pop()

    with ExitStack() as handles:
        for path, module in model.named_modules():
            handles.callback(module.register_forward_pre_hook(enter(short(path))).remove)
            handles.callback(module.register_forward_hook(leave, always_call=True).remove)
        yield running


class _Calls(TorchFunctionMode):
    """Hears functions that a layer calls itself: attention, and the gates that have no submodule."""

    def __init__(self, tape: Tape, running: list[tuple[str, nn.Module]]) -> None:
        super().__init__()
        self._tape, self._running = tape, running

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention and self._running:
            self._attention(args, kwargs)
        result = func(*args, **kwargs)
        if func is F.softplus and self._running:
            for path, layer, gate in self._gates():
                return gate.passed(self._tape, path, layer, result)
        return result

    def _attention(self, args: Any, kwargs: Any) -> None:
        """Of a layer that has no ear of its own for it."""
        path, layer = self._running[-1]
        if _fla_layer(layer) != "Attention":
            self._tape.note(path, attention.NAME, "read", attention.weights(*args, **kwargs))

    def _gates(self) -> Iterator[tuple[str, nn.Module, Gate]]:
        path, layer = self._running[-1]
        for gate in GATES.get(_fla_layer(layer), ()):
            if not gate.places:
                yield path, layer, gate


@contextmanager
def _own(model: nn.Module, tape: Tape, own: Own | None) -> Iterator[None]:
    """Ask a submission's own probe, after the pass, about each mixer and what it was given."""
    if own is None:
        yield
        return
    asked: dict[str, nn.Module] = {"": model}
    if isinstance(model, Backbone):
        asked = {str(i): block.mixer for i, block in enumerate(model.blocks)}  # type: ignore[misc]
    given: dict[str, Tensor] = {}

    def keep(path: str) -> Callable[[nn.Module, Any], None]:
        return lambda _module, inputs: given.__setitem__(path, inputs[0])

    with ExitStack() as handles:
        for path, module in asked.items():
            handles.callback(module.register_forward_pre_hook(keep(path)).remove)
        yield
    with torch.no_grad():
        for path, x in given.items():
            for name, values in _answer(own(asked[path], x), x).items():
                tape.note(short(path), name, "own", values)


def _answer(shown: Any, x: Tensor) -> dict[str, Tensor]:
    """What ``probe`` gave, each (B, T, C); SubmissionError where it is not that."""
    allowed = f"a dict of names to tensors {tuple(x.shape[:2])} or with a third axis"
    if not isinstance(shown, Mapping):
        raise SubmissionError(explain("probe(module, x)", type(shown).__name__, allowed))
    for name, values in shown.items():
        if not isinstance(name, str) or not isinstance(values, torch.Tensor):
            got = f"{name!r}: {type(values).__name__}"
            raise SubmissionError(explain("probe(module, x)", got, allowed))
        if values.ndim not in (2, 3) or values.shape[:2] != x.shape[:2]:
            got = f"{name!r}: {tuple(values.shape)}"
            raise SubmissionError(explain("probe(module, x)", got, allowed))
    return {name: v if v.ndim == 3 else v.unsqueeze(-1) for name, v in shown.items()}
