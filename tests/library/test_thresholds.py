"""The bars and the verdicts they give."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest

from selectivbench.profiles import PROFILES
from selectivbench.record import STATUSES, Finding, Record
from selectivbench.tasks import TASKS
from selectivbench.thresholds import Bar, bar_for, bars, judge

BAR = bar_for("selective_copy-v1", "lite", "base")


@pytest.mark.parametrize("bar", bars(), ids=lambda bar: f"{bar.task}-{bar.profile}-{bar.variant}")
def test_every_bar_is_of_a_known_case_and_in_reach(bar: Bar) -> None:
    (task,) = (task for task in TASKS if task.id == bar.task)
    assert bar.variant in task.variants[bar.profile]
    assert 0 < bar.bar <= 1
    assert 0.005 <= bar.sigma < 0.2
    assert bar.evidence


def test_a_case_has_one_bar() -> None:
    keys = [(bar.task, bar.profile, bar.variant) for bar in bars()]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("profile", ["lite", "paper"])
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_every_case_has_a_bar(task: Any, profile: str) -> None:
    for variant in task.variants[profile]:
        assert bar_for(task.id, profile, variant) is not None


def test_smoke_has_no_bar() -> None:
    assert not [bar for bar in bars() if PROFILES[bar.profile].conformance]


def test_the_file_says_its_version() -> None:
    text = files("selectivbench").joinpath("thresholds.json").read_text(encoding="utf-8")
    assert json.loads(text)["version"] >= 1


def test_no_bar_where_none_is_set() -> None:
    assert bar_for("selective_copy-v1", "smoke", "base") is None
    assert bar_for("nothing-v1", "lite", "base") is None


@pytest.mark.parametrize(
    ("above", "before", "after"),
    [
        (0.0, "fail", "pass"),  # reaching the bar is passing
        (0.05, "pass", "pass"),
        (-1e-9, "pass", "fail"),
        (-2.0, "fail", "fail"),
    ],
)
def test_judge(a_record: Record, above: float, before: Any, after: str) -> None:
    assert BAR is not None
    judged = judge(replace(a_record, status=before, cause="old", score=BAR.bar + above))
    assert judged.status == after
    words = f"below the bar {BAR.bar:.3f}" if after == "fail" else ""
    assert words in judged.cause
    assert "old" not in judged.cause


@pytest.mark.parametrize("status", sorted(set(STATUSES) - {"pass", "fail"}))
def test_only_pass_and_fail_hang_on_the_bar(a_record: Record, status: Any) -> None:
    record = replace(a_record, status=status, score=1.0)
    assert judge(record) == record


@pytest.mark.parametrize("status", ["pass", "fail"])
def test_without_a_bar_or_a_score_the_verdict_stays(a_record: Record, status: Any) -> None:
    smoke = replace(a_record.identity, profile="smoke")
    for record in (
        replace(a_record, status=status, identity=smoke),
        replace(a_record, status=status, score=None),
    ):
        assert judge(record) == record


@pytest.mark.parametrize("profile", ["lite", "smoke"])
def test_a_check_that_does_not_hold_makes_a_score_invalid(a_record: Record, profile: str) -> None:
    holds, broken = (Finding("causality", ok, "numbers") for ok in (True, False))
    record = replace(a_record, identity=replace(a_record.identity, profile=profile))
    judged = judge(replace(record, validity=(broken,)))
    assert (judged.status, judged.score) == ("invalid", record.score)
    assert judged.cause == "causality does not hold: numbers."
    again = judge(replace(judged, validity=(holds,)))
    assert (again.status, again.cause) == ("pass", "")


@pytest.mark.parametrize("status", ["error", "timeout", "crash", "invalid"])
def test_a_finding_gives_no_verdict_where_there_is_no_score(a_record: Record, status: Any) -> None:
    broken = Finding("causality", False, "numbers")
    record = replace(a_record, status=status, score=None, validity=(broken,))
    assert judge(record) == record
