"""The chain: one record for each task, whatever the submission does."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from selectivbench import dialogue, runner, yardsticks
from selectivbench.dialogue import batch_order
from selectivbench.errors import UsageError
from selectivbench.machine import Device
from selectivbench.profiles import get_profile
from selectivbench.record import Point, Record
from selectivbench.runner import Job, run
from selectivbench.sandbox.launch import ForkServer, InProcess
from selectivbench.submission import load
from selectivbench.tasks import TASKS, Levels
from selectivbench.tasks.selective_copy import SelectiveCopy, SelectiveCopyData, Size
from selectivbench.template import write
from selectivbench.thresholds import conforming
from selectivbench.tracking import NullTracker
from selectivbench.utilisation import Samples

MIXER = """
import os, time
import torch
from torch import nn
class Mixer(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.linear = nn.Linear(spec.d_model, spec.d_model)
    def forward(self, x):
        {forward}
        return self.linear(x)
def state_size(spec):
    return spec.max_length
"""


class Small(SelectiveCopy):
    """Selective copy, small enough for a test."""

    id = "small_copy-v1"
    size = Size(steps=6, marked=2, symbols=4, train=64, held_out=300)

    def dataset(self, profile: str, variant: str, seed: int) -> Any:
        assert (profile, variant) == ("smoke", "base")
        return SelectiveCopyData(self.size, seed)


class Longer(Small):
    """A second evaluation of the same training."""

    id = "longer_copy-v1"
    size = Size(steps=9, marked=2, symbols=4, train=64, held_out=20)

    @property
    def trains_on(self) -> str:
        return Small.id


class Beside(Small):
    """A second split that is shown and does not count."""

    id = "beside_copy-v1"

    def dataset(self, profile: str, variant: str, seed: int) -> Any:
        data = super().dataset(profile, variant, seed)
        data.reported = ("validation",)
        return data


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    launcher = ForkServer("cpu", frozenset())
    yield launcher
    launcher.close()


@pytest.fixture
def job(tmp_path: Path) -> Any:
    def make(forward: str = "", source: str = "", **changes: Any) -> Job:
        path = tmp_path / "mine.py"
        path.write_text(source or MIXER.format(forward=forward))
        smoke = get_profile("smoke")
        whole = Job(load(path), (Small(),), "base", smoke, 1, Device("cpu", "cpu"))
        return replace(whole, **changes)

    return make


def plainly(fit: runner.Fit) -> tuple[Point, ...]:
    return fit()


class Follower(NullTracker):
    """Notes where the training has come to."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def point(self, *values: Any) -> None:
        self.seen.append(values)


def timeless(record: Record) -> Record:
    untimed = replace(record, seconds={}, utilisation=None, created="")
    return replace(untimed, peak_memory=None, baseline_memory=None)


def test_a_reported_split_is_shown_and_does_not_count(server: ForkServer, job: Any) -> None:
    (record,) = run(job(tasks=(Beside(),)), server, NullTracker(), plainly)
    shown = {e.split: (e.scored, e.accuracy) for e in record.evaluations}
    assert shown == {
        "test": (True, record.accuracy),
        "validation": (False, shown["validation"][1]),
    }
    assert shown["validation"][1] != record.accuracy


def test_a_record_is_whole_and_the_same_again(server: ForkServer, job: Any) -> None:
    follower = Follower()
    (record,) = run(job(), server, follower, plainly)
    assert record.identity == job().identity(Small())
    assert (record.status, record.metric, record.isolation) == ("pass", "accuracy", "process")
    assert record.floor == 0.25
    assert record.ceiling == 1.0
    assert record.accuracy is not None
    assert record.score == pytest.approx((record.accuracy - 0.25) / 0.75)
    assert [e.split for e in record.evaluations] == ["test"]
    assert [p.step for p in record.curve] == list(range(1, 21))
    assert [p.step for p in record.curve if p.accuracy is not None] == [10, 20]
    assert follower.seen == [(p.step, 20, p.loss, p.accuracy) for p in record.curve]
    assert set(record.seconds) == {"build", "fit", "evaluate", "cpu"}
    assert record.parameters is not None
    assert record.parameters > 10_000
    assert record.state_size == 8
    assert record.budget["budget"]["steps"] == 20
    assert Record.from_json(record.to_json()) == record
    (again,) = run(job(), server, NullTracker(), plainly)
    assert timeless(again) == timeless(record)
    (other,) = run(job(seed=2), server, NullTracker(), plainly)
    assert other.curve != record.curve


def test_on_a_cpu_the_process_tells_how_busy_it_kept_it(server: ForkServer, job: Any) -> None:
    (record,) = run(job(), server, NullTracker(), plainly)
    assert record.utilisation is not None
    took = record.seconds
    longest = took["build"] + took["fit"] + took["evaluate"]  # the launcher's own start is in it
    assert 0.9 * took["cpu"] / longest <= record.utilisation <= 1.1 * took["cpu"] / took["fit"]


def test_on_a_gpu_it_is_what_was_seen_during_the_fit(server: ForkServer, job: Any) -> None:
    """The device is a GPU by its name alone: the child computes on the CPU, as its order says."""
    during: list[str] = []

    @contextmanager
    def watch(device: Device) -> Iterator[Samples]:
        during.append(f"begin {device.name}")
        samples = Samples()
        samples.read(io.StringIO("50\n100\n"))
        yield samples
        during.append("end")

    def timed(fit: runner.Fit) -> tuple[Point, ...]:
        during.append("fit")
        return fit()

    gpu = job(device=Device("cpu", "NVIDIA-H200"))
    (record,) = run(gpu, server, NullTracker(), timed, watch=watch)
    assert record.utilisation == 0.75
    assert during == ["begin NVIDIA-H200", "fit", "end"]


def test_outside_of_smoke_speeds_come_with_the_yardsticks(server: ForkServer, job: Any) -> None:
    measured = job(profile=replace(get_profile("smoke"), conformance=False), steps=4)
    (record,) = run(measured, server, NullTracker(), plainly)
    times = ["step", "predict", "reference_step", "reference_predict"]
    assert all(0 < record.seconds[name] < 60 for name in times)
    assert record.seconds["predict"] < record.seconds["step"]  # one sequence, and no gradient


def test_a_yardstick_that_fails_takes_no_figure_away(
    server: ForkServer, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = "raise RuntimeError('not the submission')"
    monkeypatch.setattr(yardsticks, "source", lambda _: broken)
    measured = job(profile=replace(get_profile("smoke"), conformance=False), steps=4)
    (record,) = run(measured, server, NullTracker(), plainly)
    assert record.accuracy is not None
    assert record.status in ("pass", "fail")
    assert "step" in record.seconds
    assert "reference_step" not in record.seconds


def test_pace_does_not_change_what_is_recorded(server: ForkServer, job: Any) -> None:
    plain = get_profile("smoke")
    curves = []
    for profile in (plain, replace(plain, conformance=False)):
        (record,) = run(job(profile=profile), server, NullTracker(), plainly)
        curves.append((record.curve, record.accuracy))
    assert curves[0] == curves[1]


def test_one_training_gives_a_record_for_each_task(server: ForkServer, job: Any) -> None:
    both = job(tasks=(Small(), Longer()))
    short, long = run(both, server, NullTracker(), plainly)
    assert (short.identity.task, long.identity.task) == ("small_copy-v1", "longer_copy-v1")
    assert short.state_size == 11  # max_length covers the longest evaluation
    assert short.curve == long.curve
    assert short.seconds == long.seconds


@pytest.mark.parametrize(
    ("forward", "status", "cause"),
    [
        ("raise ValueError('boom')", "error", "ValueError: boom"),
        ("x = x[:, 1:]", "error", "Mixer's output: got"),
        ("os._exit(0)", "crash", "in phase 'fit': it left with exit code 0"),
        ("raise MemoryError", "oom", "MemoryError"),
        ("x = x * float('nan')", "invalid", "the training loss is nan by step 1"),
        ("x = x if self.training else x / 0", "invalid", "got NaN or infinity"),
    ],
)
def test_each_failure_has_its_status(
    server: ForkServer, job: Any, forward: str, status: str, cause: str
) -> None:
    failing = job(forward, tasks=(Small(), Longer()))
    records = run(failing, server, NullTracker(), plainly)
    assert [r.identity.task for r in records] == ["small_copy-v1", "longer_copy-v1"]
    for record in records:
        assert record.status == status
        assert cause in record.cause
        assert record.score is record.accuracy is None
        assert "fit" not in record.seconds
        assert record.parameters is not None  # it was built, and that is known
        assert Record.from_json(record.to_json()) == record


def test_a_submission_that_cannot_be_built(server: ForkServer, job: Any) -> None:
    (record,) = run(job(source="1 / 0\nMixer = 3"), server, NullTracker(), plainly)
    assert (record.status, record.parameters, record.curve) == ("error", None, ())
    assert "ZeroDivisionError" in record.cause


def test_a_fit_over_its_deadline_is_a_timeout(server: ForkServer, job: Any) -> None:
    profile = get_profile("smoke")
    plan = profile.default_plan
    hasty = replace(plan, budget=replace(plan.budget, deadline=0.2))
    late = job("time.sleep(9)", profile=replace(profile, default_plan=hasty))
    (record,) = run(late, server, NullTracker(), plainly)
    assert record.status == "timeout"
    assert "'fit' before its deadline" in record.cause


def test_an_error_in_the_data_surfaces_as_itself(
    server: ForkServer, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = SelectiveCopyData.batch

    def broken(self: Any, split: str, indices: Any) -> Any:
        if split == "train" and indices[0] > 0:
            raise ZeroDivisionError("bad data")
        return made(self, split, indices)

    monkeypatch.setattr(SelectiveCopyData, "batch", broken)
    with pytest.raises(ZeroDivisionError, match="bad data"):
        run(job(), server, NullTracker(), plainly)
    monkeypatch.undo()
    assert run(job(), server, NullTracker(), plainly)[0].status == "pass"  # the server lives on


def test_a_range_too_small_for_a_score_is_refused(
    server: ForkServer, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SelectiveCopyData, "levels", lambda *_: Levels(0.9, 1.0, 0.1))
    with pytest.raises(UsageError, match="ceiling - floor"):
        run(job(), server, NullTracker(), plainly)


def test_only_the_fit_is_timed_and_just_once(server: ForkServer, job: Any) -> None:
    calls: list[int] = []

    def timed(fit: runner.Fit) -> tuple[Point, ...]:
        points = fit()
        calls.append(len(points))
        return points

    run(job(), server, NullTracker(), timed)
    assert calls == [20]


def test_the_template_runs_through_smoke_in_process(tmp_path: Path) -> None:
    write(tmp_path / "mine.py")
    submission = load(tmp_path / "mine.py")
    (copy,) = (task for task in TASKS if task.name == "selective_copy")
    whole = Job(submission, (copy,), "base", get_profile("smoke"), 1, Device("cpu", "cpu"))
    launcher = InProcess("cpu", frozenset())
    (record,) = run(whole, launcher, NullTracker(), plainly)
    assert (record.status, record.cause, record.isolation) == ("pass", "", "none")
    assert record.state_size == 32
    assert record.curve[-1].loss < record.curve[0].loss


def test_a_declared_rate_is_the_budgets_and_part_of_the_identity(job: Any) -> None:
    plain, declared = job(), job(source=MIXER.format(forward="") + "TRAIN = {'lr': 0.05}")
    assert plain.plan.budget.lr == 1e-2
    assert declared.plan.budget.lr == 0.05
    digests = {j.identity(Small()).budget_digest for j in (plain, declared, job(steps=5))}
    assert len(digests) == 3


@pytest.mark.parametrize("steps", [1, 5, 8])
def test_data_that_suffices_is_read_once_in_order(steps: int) -> None:
    order = np.concatenate(list(batch_order(16, 2, steps, seed=1)))
    assert order.tolist() == list(range(2 * steps))


def test_data_that_does_not_suffice_is_shuffled_each_pass() -> None:
    order = list(batch_order(10, 3, 7, seed=1))  # 3 batches a pass, one sample left over
    assert [len(batch) for batch in order] == [3] * 7
    first, second = np.concatenate(order[:3]), np.concatenate(order[3:6])
    assert len(set(first)) == len(set(second)) == 9
    assert first.tolist() != second.tolist()
    assert first.tolist() != sorted(first)
    again = list(batch_order(10, 3, 7, seed=1))
    assert np.array_equal(order, again)
    assert not np.array_equal(order, list(batch_order(10, 3, 7, seed=2)))


@pytest.mark.parametrize(
    ("steps", "points", "expected"),
    [
        (20, 2, {10, 20}),
        (1_200, 6, {200, 400, 600, 800, 1_000, 1_200}),
        (1, 20, {1}),
        (3, 20, {1, 2, 3}),
        (7, 1, {7}),
    ],
)
def test_points_are_evenly_spread_and_the_last_step_is_one(
    steps: int, points: int, expected: set[int]
) -> None:
    assert dialogue.evenly(steps, points) == expected


@pytest.mark.parametrize(
    ("losses", "status"),
    [
        ([3] * 3 + [2] * 3 + [1] * 3, "pass"),
        ([1] * 3 + [2] * 3 + [3] * 3, "fail"),
        ([1] * 9, "fail"),
        ([1, 5], "pass"),  # too few points to say
        ([2, 3, 2, 9, 9, 9, 1, 2, 2], "pass"),
    ],
)
def test_smokes_verdict_is_a_falling_loss(
    a_record: Record, losses: list[float], status: str
) -> None:
    curve = tuple(Point(i, loss) for i, loss in enumerate(losses, start=1))
    judged = conforming(replace(a_record, curve=curve))
    assert judged.status == status
    assert ("did not fall" in judged.cause) == (status == "fail")
