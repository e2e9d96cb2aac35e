"""What a sweep can vary, and which values each axis takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from selectivbench.errors import UsageError, explain, near
from selectivbench.tasks import Task

Value: TypeAlias = int | float | str


@dataclass(frozen=True)
class Axis:
    """Numbers from ``low`` to ``high``, both allowed."""

    kind: type
    low: float
    high: float

    def takes(self, value: object) -> bool:
        """A whole number will do where a float is asked for; a bool never does."""
        if type(value) is not int and type(value) is not self.kind:
            return False
        return isinstance(value, int | float) and self.low <= value <= self.high

    def __str__(self) -> str:
        number = "a whole number" if self.kind is int else "a number"
        return f"{number} from {self.low:g} to {self.high:g}"


SIZES: Mapping[str, Axis] = MappingProxyType(
    {
        "width": Axis(int, 1, 1 << 16),
        "layers": Axis(int, 1, 1 << 10),
        "heads": Axis(int, 1, 1 << 10),
        "d_state": Axis(int, 1, 1 << 14),
        "dropout": Axis(float, 0.0, 0.99),
        "lr": Axis(float, 1e-7, 1.0),
        "warmup": Axis(int, 0, 10**9),
        "steps": Axis(int, 1, 10**9),
        "batch_size": Axis(int, 1, 1 << 20),
        "dataset_size": Axis(int, 1, 10**9),
    }
)
"""Sizes of one training, the options of ``selectivbench train``."""

VARIANT, EVALUATION = "variant", "evaluation"
"""Axes of the task: its variant, and the one test split that a cell of ``reuse`` predicts."""
AXES = (*SIZES, VARIANT, EVALUATION)


def check_axis(axis: str, where: str, besides: Iterable[str] = ()) -> None:
    """UsageError where there is no such axis; ``besides``: other names that may stand there."""
    if axis not in AXES:
        raise UsageError(explain(f"{where}: axis", axis, near(axis, (*AXES, *besides))))


def check_value(axis: str, value: object, task: Task, profile: str) -> None:
    """UsageError where the axis does not take the value."""
    if axis in SIZES:
        if not SIZES[axis].takes(value):
            raise UsageError(explain(axis, value, SIZES[axis]))
        return
    known = _names(axis, task, profile)
    if value not in known:
        raise UsageError(explain(axis, value, near(str(value), known)))


def _names(axis: str, task: Task, profile: str) -> tuple[str, ...]:
    variants = task.variants.get(profile, ())
    if axis == VARIANT or not variants:
        return variants
    return task.dataset(profile, variants[0], seed=1).evaluations
