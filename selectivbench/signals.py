"""What a probe hears of a layer: one array for each gate, decay or attention, with its name.

Both sides know it: the child sends signals, the controller checks and measures them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from selectivbench.errors import ProtocolError, explain

Role: TypeAlias = Literal["write", "forget", "read", "own"]
ROLES: tuple[str, ...] = get_args(Role)
LONGEST_NAME, MOST_SIGNALS = 60, 200
NOTHING_TO_HEAR = "layers to probe: got 'none'"
"""How the sentence begins that a child answers a probe with, where no layer can be heard."""


@dataclass(frozen=True, eq=False)
class Signal:
    """What one layer did at every step.

    layer: which, as a path in the model without what all paths share. name: as its paper calls it.
    role: ``write`` (how much of a step is taken in), ``forget`` (how much of the past is kept),
    ``read`` (what is looked at when answering), ``own`` (of the submission's ``probe``).
    values: (B, T, C) float32, a number per step and channel; attention is (B, H, T, T), the weight
    that a step (third axis) gives to each earlier one.
    gate: other values can be put in its place. fixed: why it cannot depend on the input, or "".
    """

    layer: str
    name: str
    role: Role
    values: NDArray[np.float32]
    gate: bool = False
    fixed: str = ""

    @property
    def key(self) -> str:
        """Layer and name, as in ``0/Δ``."""
        return f"{self.layer}/{self.name}"

    @property
    def attention(self) -> bool:
        """Whether it is weights from step to step."""
        return self.values.ndim == 4

    def meta(self) -> dict[str, Any]:
        """All but the array."""
        facts: dict[str, Any] = {"layer": self.layer, "name": self.name, "role": self.role}
        return facts | {"gate": self.gate, "fixed": self.fixed}


def packed(signals: Sequence[Signal]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Meta and arrays of a frame."""
    arrays = {f"s{i}": signal.values for i, signal in enumerate(signals)}
    return {"signals": [signal.meta() for signal in signals]}, arrays


def unpacked(
    meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], batch: int, steps: int
) -> tuple[Signal, ...]:
    """The signals of a frame from a stranger's process; ProtocolError where they are none."""
    listed = meta.get("signals")
    if not isinstance(listed, list) or not 0 < len(listed) <= MOST_SIGNALS:
        raise ProtocolError(explain("signals", type(listed).__name__, f"1 to {MOST_SIGNALS}"))
    signals = tuple(_signal(facts, arrays.get(f"s{i}")) for i, facts in enumerate(listed))
    if len({signal.key for signal in signals}) < len(signals):
        raise ProtocolError("signals: got two of one layer and name.")
    for signal in signals:
        _check(signal, batch, steps)
    return signals


def _signal(facts: Any, values: NDArray[Any] | None) -> Signal:
    kinds = {"layer": str, "name": str, "role": str, "gate": bool, "fixed": str}
    if not isinstance(facts, dict) or set(facts) != set(kinds) or values is None:
        raise ProtocolError(explain("signal", str(facts)[:200], f"{', '.join(kinds)}, an array"))
    if any(type(facts[name]) is not kind for name, kind in kinds.items()):
        raise ProtocolError(explain("signal", str(facts)[:200], "text, and a truth value for gate"))
    return Signal(values=values, **facts)


def _check(signal: Signal, batch: int, steps: int) -> None:
    texts = (signal.layer, signal.name)
    if signal.role not in ROLES or not all(
        t.isprintable() and len(t) <= LONGEST_NAME for t in texts
    ):
        allowed = f"a role of {ROLES}, names of at most {LONGEST_NAME} characters"
        raise ProtocolError(explain("signal", str(signal.meta())[:200], allowed))
    if not signal.fixed.isprintable() or len(signal.fixed) > 4 * LONGEST_NAME:
        raise ProtocolError(explain("signal's reason", signal.fixed[:200], "one line"))
    values, shape = signal.values, signal.values.shape
    attention = len(shape) == 4 and (shape[0], *shape[2:]) == (batch, steps, steps)
    gate = len(shape) == 3 and shape[:2] == (batch, steps)
    if not (attention or gate) or values.dtype != np.float32 or not values.size:
        allowed = f"({batch}, {steps}, C) or ({batch}, H, {steps}, {steps}) float32"
        raise ProtocolError(explain(f"signal {signal.key}", (shape, values.dtype.name), allowed))
    if not np.isfinite(values).all():
        raise ProtocolError(explain(f"signal {signal.key}", "NaN or infinity", "finite numbers"))
