"""The bars, frozen as data in thresholds.json, and the verdict they give."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from selectivbench.errors import UsageError


@dataclass(frozen=True)
class Bar:
    """What a score must reach, and why.

    bar, sigma: on the score; sigma is the spread between runs of the references (at least 0.005).
    provisional: set by hand from a few runs, not yet derived from committed evidence.
    """

    task: str
    profile: str
    variant: str
    bar: float
    sigma: float
    provisional: bool
    evidence: str


@cache
def bars() -> tuple[Bar, ...]:
    """Every bar of the packaged file, in its order."""
    text = files("selectivbench").joinpath("thresholds.json").read_text(encoding="utf-8")
    return tuple(Bar(**row) for row in json.loads(text)["bars"])


def bar_for(task: str, profile: str, variant: str) -> Bar | None:
    """The bar of a task id, or None where none is set (smoke has none: it tests conformance)."""
    for bar in bars():
        if (bar.task, bar.profile, bar.variant) == (task, profile, variant):
            return bar
    return None


def passes(score: float, bar: Bar | None) -> bool:
    """Whether a score reaches its bar; a missing bar is a mistake of ours, not a pass."""
    if bar is None:
        raise UsageError("no bar is set for this case; add it to thresholds.json with its evidence.")
    return score >= bar.bar
