"""Random search: the range of one axis, and draws from it that are the same everywhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from selectivbench.errors import UsageError, explain, near
from selectivbench.seeds import Stream
from selectivbench.sizes import Size

Scale = Literal["linear", "log"]
DIGITS = 6
"""Significant digits of a drawn number, so that it reads the same in a file and in a record."""


@dataclass(frozen=True)
class Range:
    """Numbers between ``low`` and ``high``, evenly on ``scale``; or one of ``choices``."""

    low: float = 0.0
    high: float = 0.0
    scale: Scale = "linear"
    whole: bool = False
    choices: tuple[Size, ...] = ()

    @property
    def ends(self) -> tuple[Size, ...]:
        """The values that decide whether all between are allowed."""
        if self.choices:
            return self.choices
        return (int(self.low), int(self.high)) if self.whole else (self.low, self.high)

    def draw(self, unit: float) -> Size:
        """The value at ``unit``, from [0, 1), of the range.

        >>> Range(1e-4, 1e-2, "log").draw(0.5)
        0.001
        >>> Range(2, 5, whole=True).draw(0.99)
        5
        """
        if self.choices:
            return self.choices[int(unit * len(self.choices))]
        high = self.high + 1 if self.whole else self.high
        if self.scale == "linear":
            value = self.low + unit * (high - self.low)
        else:
            value = math.exp(math.log(self.low) + unit * math.log(high / self.low))
        if self.whole:
            return min(int(value), int(self.high))
        return float(f"{value:.{DIGITS}g}")


def read_range(axis: str, given: Any) -> Range:
    """The range of a table such as ``{ low = 1e-4, high = 1e-2, scale = "log" }``."""
    what = f"random {axis}"
    if type(given) is not dict:
        raise UsageError(explain(what, given, "{ low = …, high = … } or { choices = […] }"))
    for name in given:
        if name not in (allowed := ("low", "high", "scale", "choices")):
            raise UsageError(explain(what, name, near(name, allowed)))
    if "choices" in given:
        return _choices(what, given)
    return _numbers(what, given)


def point(ranges: Mapping[str, Range], seed: int, index: int) -> dict[str, Size]:
    """Draw ``index`` of a search: each axis has a stream of its own, so adding one changes no other."""
    return {
        axis: span.draw(Stream.named("sweep", seed, axis).rng(index).random())
        for axis, span in ranges.items()
    }


def _choices(what: str, given: dict[str, Any]) -> Range:
    choices = given["choices"]
    if len(given) > 1 or type(choices) is not list or not choices:
        raise UsageError(explain(what, given, "{ choices = […] } with at least one value"))
    return Range(choices=tuple(choices))


def _numbers(what: str, given: dict[str, Any]) -> Range:
    low: Any = given.get("low")
    high: Any = given.get("high")
    scale = given.get("scale", "linear")
    if scale not in get_args(Scale):
        raise UsageError(explain(f"{what} scale", scale, near(str(scale), get_args(Scale))))
    if not all(type(end) in (int, float) for end in (low, high)) or not low < high:
        raise UsageError(explain(what, given, "numbers low and high with low < high"))
    if scale == "log" and low <= 0:
        raise UsageError(explain(f"{what} low", low, "more than 0 on a log scale"))
    whole = type(low) is int and type(high) is int
    return Range(float(low), float(high), scale, whole)
