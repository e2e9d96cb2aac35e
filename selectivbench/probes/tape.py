"""One forward pass under a probe: what passed, and what is put in its place."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from selectivbench.errors import SubmissionError, explain
from selectivbench.signals import Role, Signal


class Tape:
    """Takes down each signal of a pass; ``forced`` values, by key, replace those of gates.

    A forced value is (C,), the same at every step, or (B, T, C).
    """

    def __init__(self, forced: Mapping[str, Tensor] | None = None) -> None:
        self._forced = dict(forced or {})
        self._signals: dict[str, Signal] = {}

    @property
    def signals(self) -> tuple[Signal, ...]:
        """What was heard, in the order in which it passed."""
        return tuple(self._signals.values())

    def note(
        self,
        layer: str,
        name: str,
        role: Role,
        values: Tensor,
        *,
        gate: bool = False,
        fixed: str = "",
    ) -> None:
        """Take down a signal; one layer must not have two of a name in a pass."""
        heard = values.detach().float().cpu().contiguous().numpy()
        signal = Signal(layer, name, role, heard, gate, fixed)
        if signal.key in self._signals:
            got = f"{signal.key!r} twice in one forward pass"
            raise SubmissionError(explain("probe", got, "one call of each layer"))
        self._signals[signal.key] = signal

    def gate(self, layer: str, name: str, role: Role, value: Tensor) -> Tensor:
        """Take down a gate's value (B, T, C) and give what is to stand in its place."""
        self.note(layer, name, role, value, gate=True)
        put = self.put(layer, name, value)
        return value if put is None else put

    def put(self, layer: str, name: str, like: Tensor) -> Tensor | None:
        """What is put in the place of a gate, (B, T, C) as ``like``, or None."""
        value = self._forced.get(f"{layer}/{name}")
        return None if value is None else value.to(like).expand_as(like)

    def require_all_used(self) -> None:
        """SubmissionError where a value was to be forced on a gate that did not pass."""
        missed = sorted(set(self._forced) - set(self._signals))
        if missed:
            known = ", ".join(key for key, signal in self._signals.items() if signal.gate) or "none"
            raise SubmissionError(explain("gate to replace", missed[0], known))
