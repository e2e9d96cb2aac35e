"""Sizes of one's own in place of a profile's: which there are, what each may be, what they change."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from selectivbench.errors import UsageError, explain, near
from selectivbench.profiles import Budget, ModelSize, Plan

Size = int | float | str
DEADLINE = 20 * 86_400.0
"""Seconds: one's own training is stopped by its owner."""
LARGEST = 1 << 20
LEAST_HEAD = 16
"""Width of a head that a mixer's spec promises at least."""
LARGEST_HEAD = 128
"""Width of a head in the published runs, at most; below four of these the heads are four."""


@dataclass(frozen=True)
class Axis:
    """What one size may be: a whole number or not, from ``least`` to ``most``."""

    whole: bool
    least: float
    most: float
    about: str

    def read(self, name: str, value: Size) -> int | float:
        """The size as a number; texts are taken as well. UsageError where it is none, or too far."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        good = self.least <= number <= self.most and not isinstance(value, bool)
        if not good or (self.whole and number != int(number)):
            kind = "a whole number" if self.whole else "a number"
            raise UsageError(explain(name, value, f"{kind}, {self.least:g} to {self.most:g}"))
        return int(number) if self.whole else number


AXES: Mapping[str, Axis] = MappingProxyType(
    {
        "width": Axis(True, LEAST_HEAD, LARGEST, "d_model of the stack"),
        "layers": Axis(True, 1, 1_024, "blocks"),
        "heads": Axis(True, 1, LARGEST, "hint for mixers with heads; divides the width"),
        "d_state": Axis(True, 1, LARGEST, "hint for mixers with a state of free size"),
        "dropout": Axis(False, 0, 0.99, "after each mixer and MLP"),
        "lr": Axis(False, 1e-6, 1, "peak learning rate, whatever the file's TRAIN says"),
        "warmup": Axis(True, 0, 10**9, "steps of linear warm-up"),
        "steps": Axis(True, 1, 10**9, "updates; more than one pass over the data shuffles it"),
        "batch_size": Axis(True, 1, LARGEST, "sequences in an update"),
        "dataset_size": Axis(True, 1, 10**9, "training sequences that are used"),
        "held_out": Axis(True, 1, 10**9, "sequences of every other split that are used"),
    }
)
"""The sizes that may be given, by name."""


def read(sizes: Mapping[str, Size]) -> dict[str, int | float]:
    """The sizes as numbers, in the order of ``AXES``; UsageError with the near name.

    >>> read({"lr": "1e-3", "width": 64})
    {'width': 64, 'lr': 0.001}
    """
    for name in sizes:
        if name not in AXES:
            raise UsageError(explain("size", name, near(str(name), AXES)))
    return {name: axis.read(name, sizes[name]) for name, axis in AXES.items() if name in sizes}


def resized(plan: Plan, numbers: Mapping[str, int | float]) -> Plan:
    """A profile's plan with sizes of one's own, which ``read`` gave.

    Blocks keep their budget in squares of the width, and heads follow the width where they are not
    given. Fewer steps cut warm-up and validations along, as a cut budget does.
    """
    return Plan(_model(plan.model, numbers), _budget(plan, numbers))


def heads_of(width: int, published: bool) -> int:
    """Heads of a width: as published (SelectivBench's runs), or as many as are 16 wide or more.

    >>> [heads_of(width, published=True) for width in (256, 512, 648, 1152)]
    [4, 4, 8, 16]
    """
    if published and width >= 4 * LEAST_HEAD:
        choices = [1 << n for n in range(2, 20) if width <= LARGEST_HEAD << n]
    else:
        choices = list(range(width // LEAST_HEAD, 0, -1))
    for heads in choices:
        if width % heads == 0:
            return heads
    raise UsageError(explain("width", width, "one that its heads divide", "give heads too"))


def _model(size: ModelSize, numbers: Mapping[str, int | float]) -> ModelSize:
    width = int(numbers.get("width", size.d_model))
    heads = _whole(numbers, "heads", None) or _heads(size, width)
    if width % heads or width // heads < LEAST_HEAD:
        allowed = f"a number that divides the width {width} into {LEAST_HEAD} or more"
        raise UsageError(explain("heads", heads, allowed))
    return replace(
        size,
        d_model=width,
        n_layers=int(numbers.get("layers", size.n_layers)),
        n_heads=heads,
        block_budget=size.block_budget * width**2 // size.d_model**2,
        dropout=numbers.get("dropout", size.dropout),
        d_state=_whole(numbers, "d_state", size.d_state),
    )


def _heads(size: ModelSize, width: int) -> int:
    return size.n_heads if width == size.d_model else heads_of(width, size.post_norm)


def _budget(plan: Plan, numbers: Mapping[str, int | float]) -> Budget:
    budget = plan.budget
    steps = int(numbers.get("steps", budget.steps))
    batch_size = int(numbers.get("batch_size", budget.batch_size))
    samples = _whole(numbers, "dataset_size", budget.samples)
    if samples is not None and samples < batch_size:
        allowed = f"{batch_size} or more, the batch size"
        raise UsageError(explain("dataset_size", samples, allowed))
    warmup = int(numbers.get("warmup", min(budget.warmup, steps // 2)))
    if warmup > steps:
        raise UsageError(explain("warmup", warmup, f"0 to {steps}, the steps"))
    return replace(
        budget,
        steps=steps,
        batch_size=batch_size,
        lr=numbers.get("lr", budget.lr),
        warmup=warmup,
        validations=min(budget.validations, steps),
        deadline=DEADLINE,
        samples=samples,
        held_out=_whole(numbers, "held_out", budget.held_out),
    )


def _whole(numbers: Mapping[str, int | float], name: str, default: int | None) -> int | None:
    return int(numbers[name]) if name in numbers else default
