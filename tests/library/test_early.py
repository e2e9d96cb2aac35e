"""The early verdict: one rule for all, blind to test data; and how many steps the bar took."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from selectivbench.errors import ProtocolError
from selectivbench.machine import Device
from selectivbench.profiles import PROFILES, EarlyStop, Profile, get_profile
from selectivbench.record import Evaluation, Point, Record, digest
from selectivbench.runner import Job, run
from selectivbench.sandbox.launch import ForkServer
from selectivbench.stopping import Gate
from selectivbench.submission import load
from selectivbench.tasks.selective_copy import SelectiveCopyData, Size
from selectivbench.thresholds import bar_for, steps_to_bar
from selectivbench.tracking import NullTracker
from tests.library.test_runner import MIXER, Small

COMMITTED = sorted(
    (f for f in files("leaderboard").joinpath("results").iterdir() if f.name.endswith(".json")),
    key=lambda f: f.name,
)


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    launcher = ForkServer("cpu", frozenset())
    yield launcher
    launcher.close()


def early(within: float, validations: int = 2) -> Profile:
    """Smoke with five validations, four steps apart, and a rule."""
    smoke = get_profile("smoke")
    plan = replace(smoke.default_plan, budget=replace(smoke.default_plan.budget, validations=5))
    return replace(smoke, default_plan=plan, early=EarlyStop(within, validations))


@pytest.fixture
def job(tmp_path: Path) -> Any:
    def make(profile: Profile) -> Job:
        path = tmp_path / "mine.py"
        path.write_text(MIXER.format(forward=""))
        return Job(load(path), (Small(),), "base", profile, 1, Device("cpu", "cpu"))

    return make


def test_a_training_ends_where_the_rule_says(server: ForkServer, job: Any) -> None:
    """Any score is within 2 of 1, so the second validation is the last."""
    (record,) = run(job(early(within=2.0)), server, NullTracker(), lambda fit: fit())
    assert record.stopped_at == 8
    assert [p.step for p in record.curve if p.accuracy is not None] == [4, 8]
    assert record.curve[-1].step == 8
    assert record.accuracy is not None
    assert record.budget["early"] == {"within": 2.0, "validations": 2}
    assert Record.from_json(record.to_json()) == record


def test_a_rule_that_never_holds_changes_nothing_but_the_key(server: ForkServer, job: Any) -> None:
    """A score above 1.5 does not exist; the same batches are sent, in the same order."""
    ruled, free = job(early(within=-0.5)), job(replace(early(0.0), early=None))
    (first,), (second,) = (
        run(each, server, NullTracker(), lambda fit: fit()) for each in (ruled, free)
    )
    assert first.stopped_at is second.stopped_at is None
    assert first.curve == second.curve
    assert first.accuracy == second.accuracy
    assert first.identity.budget_digest != second.identity.budget_digest


def test_batches_that_are_sent_do_not_depend_on_who_is_faster(
    server: ForkServer, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = SelectiveCopyData.batch
    drawn: list[int] = []

    def counted(self: Any, split: str, indices: Any) -> Any:
        drawn.extend([len(indices)] if split == "train" else [])
        return made(self, split, indices)

    monkeypatch.setattr(SelectiveCopyData, "batch", counted)
    run(job(early(within=2.0)), server, NullTracker(), lambda fit: fit())
    assert len(drawn) == 8


def test_a_judge_that_fails_leaves_no_sender_waiting(
    server: ForkServer, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from selectivbench import dialogue

    def broken(*_: Any) -> bool:
        raise ProtocolError("no verdict")

    monkeypatch.setattr(dialogue.Exam, "mark", broken)
    (record,) = run(job(early(within=0.1)), server, NullTracker(), lambda fit: fit())
    assert (record.status, record.cause) == ("invalid", "no verdict")


def test_the_rule_sees_validation_data_only(job: Any, server: ForkServer) -> None:
    asked: list[str] = []

    class Watching(Small):
        def dataset(self, profile: str, variant: str, seed: int) -> Any:  # noqa: ARG002
            data = SelectiveCopyData(Size(6, 2, 4, 64, 300), seed)
            made = data.batch

            def batch(split: str, indices: Any) -> Any:
                asked.append(split)
                return made(split, indices)

            data.batch = batch  # type: ignore[method-assign]
            return data

    one = replace(job(early(within=2.0)), tasks=(Watching(),))
    seen: list[set[str]] = []

    def timed(fit: Any) -> Any:
        points = fit()
        seen.append(set(asked))
        return points

    run(one, server, NullTracker(), timed)
    assert seen == [{"train", "validation"}]


def test_lite_and_smoke_have_no_rule_and_their_digests_are_the_committed_ones() -> None:
    assert {name: bool(p.early) for name, p in PROFILES.items()} == {
        "smoke": False,
        "lite": False,
        "paper": True,
    }
    for file in COMMITTED:
        record = Record.from_json(file.read_text(encoding="utf-8"))
        if record.identity.profile != "lite":
            continue
        name = record.identity.task.rpartition("-v")[0]
        plan = get_profile("lite").plan(name.replace("gap_extrapolation", "noisy_gaps"))
        lr = record.budget["budget"]["lr"]
        now = replace(plan, budget=replace(plan.budget, lr=lr))
        assert digest(now.facts()) == record.identity.budget_digest, file.name


def would_have_stopped(record: Record, rule: EarlyStop) -> bool:
    """Whether paper's rule, on this record's validations, would have ended its training early."""
    levels = record.validation or record.evaluations[0]
    span = levels.ceiling - levels.floor
    scores = [(p.accuracy - levels.floor) / span for p in record.curve if p.accuracy is not None]
    return any(rule.holds(scores[:n]) for n in range(1, len(scores)))


def test_on_the_committed_evidence_no_verdict_would_change() -> None:
    """Wherever the rule would have stopped a training, its full length passed."""
    rule = get_profile("paper").early
    assert rule is not None
    stopped = 0
    for file in COMMITTED:
        record = Record.from_json(file.read_text(encoding="utf-8"))
        if [e.split for e in record.evaluations] != ["test"]:
            continue  # another task's training: its validations are judged with that task
        bar = bar_for(record.identity.task, "lite", record.identity.variant)
        if bar is not None and would_have_stopped(record, rule):
            stopped += 1
            assert record.score is not None
            assert record.score >= bar.bar, file.name
    assert stopped >= 3  # else this says nothing


COPY = bar_for("selective_copy-v1", "lite", "base")
REACHED = 0.125 + 0.875 * (COPY.bar if COPY else 1)
"""The accuracy at the bar of selective copy, between a floor of 0.125 and a ceiling of 1."""


@pytest.mark.parametrize(
    ("accuracies", "steps"),
    [
        ([0.2, REACHED + 0.01, 0.3], 200),
        ([0.2, REACHED - 1e-4, REACHED + 1e-9], 300),
        ([0.2, 0.3, 0.4], None),
        ([None, None, REACHED + 0.01], 300),
        ([], None),
    ],
)
def test_steps_to_the_bar(
    a_record: Record, accuracies: list[float | None], steps: int | None
) -> None:
    curve = tuple(Point(100 * i, 1.0, accuracy) for i, accuracy in enumerate(accuracies, start=1))
    validation = Evaluation("validation", 0.0, 0.125, 1.0)
    assert steps_to_bar(replace(a_record, curve=curve, validation=validation)) == steps
    older = replace(a_record, curve=curve, evaluations=(Evaluation("test", 0.9, 0.125, 1.0),))
    assert steps_to_bar(older) == steps


def test_steps_to_a_bar_that_cannot_be_known(a_record: Record) -> None:
    several = tuple(Evaluation(f"test-gap{n}", 0.9, 0.125, 1.0) for n in (10, 20))
    record = replace(a_record, curve=(Point(100, 1.0, 0.99),), evaluations=several)
    assert steps_to_bar(record) is None
    smoke = replace(a_record, identity=replace(a_record.identity, profile="smoke"))
    assert steps_to_bar(smoke) is None


def test_an_interrupted_training_that_was_over_is_not_gone_on_with(job: Any) -> None:
    """The scores before the interruption count; three at the ceiling end it at once."""
    data = job(early(0.1)).dataset(Small())
    whole = tuple(Point(4 * i, 0.1, accuracy) for i, accuracy in enumerate((0.2, 1.0, 1.0), 1))
    assert Gate(EarlyStop(0.1, 2), data, whole).over
    assert not Gate(EarlyStop(0.1, 2), data, whole[:2]).over
    gate = Gate(EarlyStop(0.1, 2), data, whole[:2])
    assert gate.judge(1.0)
    assert gate.closes()
    free = Gate(None, data, whole)
    assert not free.over
    assert not free.judge(1.0)
    assert not free.closes()  # and does not wait
