"""torch's LSTM and GRU, step by step: their kernels keep the gates to themselves.

The gates are computed again from weights, inputs and hidden states; the outputs are those of the
module itself to rounding, which a test holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selectivbench.errors import SubmissionError, explain
from selectivbench.probes.tape import Tape
from selectivbench.signals import Role

States: TypeAlias = tuple[Tensor, ...]
Gates: TypeAlias = dict[str, Tensor]
Step: TypeAlias = Callable[[Tensor, Tensor, States, Callable[[Gates], Gates]], States]
"""(input part, weights times hidden state, states, gates as they are to be) to the next states."""

LSTM_GATES: dict[str, Role] = {
    "input gate": "write",
    "forget gate": "forget",
    "output gate": "read",
}
GRU_GATES: dict[str, Role] = {"reset gate": "read", "update gate": "forget"}


def lstm_step(
    inner: Tensor, outer: Tensor, states: States, chosen: Callable[[Gates], Gates]
) -> States:
    """c = f c + i tanh(g), h = o tanh(c), the four in torch's order i, f, g, o."""
    i, f, g, o = (inner + outer).chunk(4, dim=-1)
    gates = chosen(dict(zip(LSTM_GATES, (i.sigmoid(), f.sigmoid(), o.sigmoid()), strict=True)))
    taken, kept, shown = gates.values()
    cell = kept * states[1] + taken * g.tanh()
    return shown * cell.tanh(), cell


def gru_step(
    inner: Tensor, outer: Tensor, states: States, chosen: Callable[[Gates], Gates]
) -> States:
    """h = z h + (1 - z) tanh(n + r n'), torch's order r, z, n: an update gate of one keeps all."""
    (r, z, n), (hidden_r, hidden_z, hidden_n) = inner.chunk(3, dim=-1), outer.chunk(3, dim=-1)
    raw = ((r + hidden_r).sigmoid(), (z + hidden_z).sigmoid())
    reset, kept = chosen(dict(zip(GRU_GATES, raw, strict=True))).values()
    return (kept * states[0] + (1 - kept) * (n + reset * hidden_n).tanh(),)


@contextmanager
def stepped(tape: Tape, path: str, module: nn.LSTM | nn.GRU) -> Iterator[None]:
    """Let a module run as an explicit loop, its gates on the tape, for as long as this lasts."""
    _require_plain(module)

    def forward(x: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        if hx is not None or x.ndim != 3:
            got = "a first state" if hx is not None else f"{x.ndim} axes"
            raise SubmissionError(explain(f"{_name(module)} under a probe", got, "a batch alone"))
        return _run(tape, path, module, x)

    module.forward = forward  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        del module.forward


def _run(tape: Tape, path: str, module: nn.LSTM | nn.GRU, x: Tensor) -> tuple[Tensor, Any]:
    y = x if module.batch_first else x.transpose(0, 1)
    last = []
    for layer in range(module.num_layers):
        name = f"{path}.l{layer}" if module.num_layers > 1 else path
        y, states = _layer(tape, name, module, layer, y)
        last.append(states)
    ends = [torch.stack(group) for group in zip(*last, strict=True)]
    y = y if module.batch_first else y.transpose(0, 1)
    return y, tuple(ends) if isinstance(module, nn.LSTM) else ends[0]


def _layer(
    tape: Tape, path: str, module: nn.LSTM | nn.GRU, layer: int, x: Tensor
) -> tuple[Tensor, States]:
    """One layer over (B, T, D)."""
    names = (f"{kind}_l{layer}" for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    weights: list[Any] = [getattr(module, name, None) for name in names]
    inner, outer, inner_bias, outer_bias = weights
    lstm = isinstance(module, nn.LSTM)
    step, roles = (lstm_step, LSTM_GATES) if lstm else (gru_step, GRU_GATES)
    empty = x.new_zeros(len(x), x.shape[1], module.hidden_size)
    forced = {name: tape.put(path, name, empty) for name in roles}
    heard: dict[str, list[Tensor]] = {name: [] for name in roles}
    states: States = (empty[:, 0],) * (2 if lstm else 1)
    shown = []
    for t, part in enumerate(F.linear(x, inner, inner_bias).unbind(1)):

        def chosen(gates: Gates, t: int = t) -> Gates:
            for name, gate in gates.items():
                heard[name].append(gate)
            return {n: g if (put := forced[n]) is None else put[:, t] for n, g in gates.items()}

        states = step(part, F.linear(states[0], outer, outer_bias), states, chosen)
        shown.append(states[0])
    for name, role in roles.items():
        tape.note(path, name, role, torch.stack(heard[name], dim=1), gate=True)
    return torch.stack(shown, dim=1), states


def _require_plain(module: nn.LSTM | nn.GRU) -> None:
    """SubmissionError for what the loop does not do."""
    odd = {"bidirectional": module.bidirectional, "with a projection": bool(module.proj_size)}
    got = [name for name, is_so in odd.items() if is_so]
    if got:
        allowed = "one direction, no projection"
        raise SubmissionError(explain(f"{_name(module)} under a probe", got[0], allowed))


def _name(module: nn.Module) -> str:
    return next(kind.__name__ for kind in (nn.LSTM, nn.GRU) if isinstance(module, kind))
