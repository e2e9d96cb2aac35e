"""What a sweep can vary: the sizes of a training, the task's variant, the test split."""

from __future__ import annotations

from collections.abc import Iterable

from selectivbench import sizes
from selectivbench.errors import UsageError, explain, near
from selectivbench.sizes import Size
from selectivbench.tasks import Task

VARIANT, EVALUATION = "variant", "evaluation"
"""Axes of the task: its variant, and the test split whose figure a cell stands for."""
AXES = (*sizes.AXES, VARIANT, EVALUATION)


def check_axis(axis: str, where: str, besides: Iterable[str] = ()) -> None:
    """UsageError where there is no such axis; ``besides``: other names that may stand there."""
    if axis not in AXES:
        raise UsageError(explain(f"{where}: axis", axis, near(axis, (*AXES, *besides))))


def read_value(axis: str, value: Size, task: Task, profile: str) -> Size:
    """The value as the axis has it; UsageError where it does not take it."""
    if axis in sizes.AXES:
        return sizes.AXES[axis].read(axis, value)
    known = _names(axis, task, profile)
    if value not in known:
        raise UsageError(explain(axis, value, near(str(value), known)))
    return value


def _names(axis: str, task: Task, profile: str) -> tuple[str, ...]:
    variants = task.variants.get(profile, ())
    if axis == VARIANT or not variants:
        return variants
    return task.dataset(profile, variants[0], seed=1).evaluations
