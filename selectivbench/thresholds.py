"""The bars, frozen as data in thresholds.json, and the verdict they give."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from selectivbench.record import Record


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


def steps_to_bar(record: Record) -> int | None:
    """The first step whose validation score reaches today's bar: how much training a layer needs.

    None where none did, where there is no bar, or where the curve's floor and ceiling are unknown.
    Records from before they were kept have those of the test split, which is of the same kind where
    it is the only one.
    """
    who = record.identity
    bar = bar_for(who.task, who.profile, who.variant)
    levels = record.validation
    if levels is None and [e.split for e in record.evaluations] == ["test"]:
        levels = record.evaluations[0]
    if bar is None or levels is None:
        return None
    wanted = levels.floor + bar.bar * (levels.ceiling - levels.floor)
    reached = (p.step for p in record.curve if p.accuracy is not None and p.accuracy >= wanted)
    return next(reached, None)


def judge(record: Record) -> Record:
    """The record with its verdict from today's bars; only pass and fail depend on them.

    A profile without bars (smoke) keeps the verdict of its conformance check.
    """
    identity = record.identity
    bar = bar_for(identity.task, identity.profile, identity.variant)
    if record.status not in ("pass", "fail") or record.score is None or bar is None:
        return record
    if record.score >= bar.bar:
        return replace(record, status="pass", cause="")
    cause = f"score {record.score:.3f} is below the bar {bar.bar:.3f}"
    return replace(record, status="fail", cause=cause)
