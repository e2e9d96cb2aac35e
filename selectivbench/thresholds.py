"""The bars, frozen as data in thresholds.json, and the verdict they give."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from statistics import fmean

from selectivbench.record import Record


@dataclass(frozen=True)
class Bar:
    """What a score must reach, and why.

    bar, sigma: on the score; sigma is the spread between runs of the references (at least 0.005).
    provisional: set by hand from a few runs, not yet derived from committed evidence.
    date, commit: when the bar was frozen, and the commit whose records it was derived from.
    """

    task: str
    profile: str
    variant: str
    bar: float
    sigma: float
    provisional: bool
    evidence: str
    date: str = ""
    commit: str = ""


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
    scored = [part for part in record.evaluations if part.scored]
    if levels is None and [part.split for part in scored] == ["test"]:
        levels = scored[0]
    if bar is None or levels is None:
        return None
    wanted = levels.floor + bar.bar * (levels.ceiling - levels.floor)
    reached = (p.step for p in record.curve if p.accuracy is not None and p.accuracy >= wanted)
    return next(reached, None)


def judge(record: Record) -> Record:
    """The record with its verdict from its findings and today's bars; other statuses stay.

    A check that does not hold makes a score invalid. A profile without bars (smoke) keeps the verdict
    of its conformance check, and a training at sizes of one's own has no bar.
    """
    found_invalid = record.status == "invalid" and record.validity
    if record.score is None or not (record.status in ("pass", "fail") or found_invalid):
        return record
    broken = [finding for finding in record.validity if not finding.ok]
    if broken:
        return replace(record, status="invalid", cause=f"{broken[0]}.")
    identity = record.identity
    bar = bar_for(identity.task, identity.profile, identity.variant)
    if bar is None or record.custom is not None:
        return conforming(record) if found_invalid else record  # the check holds now
    if record.score >= bar.bar:
        return replace(record, status="pass", cause="")
    cause = f"score {record.score:.3f} is below the bar {bar.bar:.3f}"
    return replace(record, status="fail", cause=cause)


def conforming(record: Record) -> Record:
    """Smoke's verdict: the training loss fell, from the first third of the curve to the last."""
    losses = [point.loss for point in record.curve]
    third = len(losses) // 3 if len(losses) >= 9 else 0  # fewer steps than that are noise
    if not third or (last := fmean(losses[-third:])) < (first := fmean(losses[:third])):
        return replace(record, status="pass", cause="")
    cause = f"the training loss did not fall: {first:.3f} at first, {last:.3f} at the end"
    return replace(record, status="fail", cause=cause)
