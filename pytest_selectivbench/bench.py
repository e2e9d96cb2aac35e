"""The packaged bench module: what one test does."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from selectivbench.anatomy import diagnose, merged
from selectivbench.record import Record
from selectivbench.thresholds import bar_for

if TYPE_CHECKING:
    from pytest_selectivbench.cases import Case
    from pytest_selectivbench.lab import Lab


class BelowBar(Exception):
    """The case ran, and its score is below the bar (or, in smoke, the loss did not fall)."""


class CaseFailed(Exception):
    """The case did not get as far as a score."""


LAB: pytest.StashKey[Lab] = pytest.StashKey()
"""Where a test finds what its session shares: records, launchers, settings."""


def judge_case(request: pytest.FixtureRequest) -> None:
    """Train a submission on a task, or take its record, and hold its score against the bar."""
    case = cast("Case", request.node)
    lab = request.config.stash[LAB]
    outcome = lab.outcome(case.job, case.task, request)
    lab.report(case, outcome)
    record = outcome.record
    if record.status == "fail" and lab.gate:
        raise BelowBar(failure(record))
    if record.status not in ("pass", "fail"):
        raise CaseFailed(f"{record.identity.entry} on {record.identity.task}: {explained(record)}")


def explained(record: Record) -> str:
    """Status and cause of a case without a score."""
    return f"{record.status}: {record.cause}"


def failure(record: Record) -> str:
    """The figure, the bar, floor and ceiling, and what to look at."""
    identity = record.identity
    who = f"{identity.entry} on {identity.task} (seed {identity.seed}, {identity.profile})"
    bar = bar_for(identity.task, identity.profile, identity.variant)
    if bar is None or record.score is None:
        return f"{who}: {record.cause}."
    lines = (
        f"{who}: score {record.score:.3f} is below the bar {bar.bar:.3f}.",
        f"accuracy {record.accuracy:.4f}, floor {record.floor:.4f}, ceiling {record.ceiling:.4f}",
        _where(record),
        _hint(record),
        f"record: {identity.stem}.json",
    )
    return "\n  ".join(filter(None, lines))


def _where(record: Record) -> str:
    """The kind of element that it is wrong on, where its errors keep to one."""
    return diagnose(merged(e.anatomy for e in record.evaluations if e.anatomy is not None))


def _hint(record: Record) -> str:
    """Where to look: at the budget while the loss still falls, else at the layer."""
    losses = [point.loss for point in record.curve]
    if len(losses) < 4:
        return "look at the budget: it was cut to a few steps"
    first, middle, last = losses[0], losses[len(losses) // 2], losses[-1]
    if last < 0.8 * middle:
        return f"look at the budget or the rate: the loss still falls ({middle:.3f} to {last:.3f})"
    if last > 0.9 * first:
        return (
            f"look at the rate or the gradients: the loss hardly moved ({first:.3f} to {last:.3f})"
        )
    return f"look at what the layer keeps: the loss has settled at {last:.3f} ({middle:.3f} midway)"
