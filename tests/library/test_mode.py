"""Autocast and CUDA graphs: kept apart by the device class, recorded, and nothing by default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from selectivbench import graphs
from selectivbench.errors import UsageError
from selectivbench.job import Job, order_of
from selectivbench.machine import PLAIN, Device, Mode, used
from selectivbench.profiles import get_profile
from selectivbench.record import Record, digest
from selectivbench.runner import run
from selectivbench.sandbox.launch import InProcess
from selectivbench.submission import load
from selectivbench.tasks import get_task
from selectivbench.timing import TimingJob
from selectivbench.tracking import NullTracker
from selectivbench.validity import Examination

LSTM = Path(__file__).parents[2] / "submissions" / "lstm.py"
CPU = Device("cpu", "cpu")


def job(mode: Mode = PLAIN, profile: str = "smoke", device: Device = CPU) -> Job:
    task, submission = get_task("selective_copy"), load(LSTM)
    return Job(submission, (task,), "base", get_profile(profile), 1, device, mode=mode)


def ran(mode: Mode) -> Record:
    launcher = InProcess("cpu", frozenset())
    (record,) = run(job(mode), launcher, NullTracker(), lambda fit: fit())
    return record


@pytest.mark.parametrize(
    ("mode", "name", "facts"),
    [
        (Mode(), "cpu", {}),
        (Mode("bf16"), "cpu+bf16", {"precision": "bf16"}),
        (Mode(graphs=True), "cpu+graphs", {"cuda_graphs": True}),
        (Mode("bf16", True), "cpu+bf16+graphs", {"precision": "bf16", "cuda_graphs": True}),
    ],
)
def test_what_is_set_is_in_the_device_class_and_the_budget(
    mode: Mode, name: str, facts: dict[str, Any]
) -> None:
    assert mode.device_class(CPU) == name
    assert used(name) == (CPU, mode)
    plain, given = job(), job(mode)
    assert given.budget == {**plain.budget, **facts}
    same = given.identity(given.tasks[0]) == plain.identity(plain.tasks[0])
    assert same == (not facts)


@pytest.mark.parametrize("name", ["cpu+fp8", "cpu+graphs+bf16", "cpu+", "cpu+bf16+bf16", "a+b+c"])
def test_a_device_class_that_no_mode_gives_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        used(name)


def test_committed_digests_of_lite_stand() -> None:
    """What is not set leaves no trace: these are in the names of the committed records."""
    lite = job(profile="lite")
    assert digest(lite.budget) == lite.identity(lite.tasks[0]).budget_digest
    results = Path(__file__).parents[2] / "leaderboard" / "results"
    (file,) = results.glob("lstm-selective_copy-v1-base-lite-seed1-*.json")
    committed = Record.from_json(file.read_text(encoding="utf-8"))
    assert digest(lite.budget) == committed.identity.budget_digest


def test_under_autocast_no_submission_has_a_dtype_of_its_own() -> None:
    submission = replace(load(LSTM), dtype="bfloat16")
    gpu = replace(job(profile="paper", device=Device("cuda", "NVIDIA-H200")), submission=submission)
    assert gpu.plan.model.dtype == "bfloat16"
    assert replace(gpu, mode=Mode("bf16")).plan.model.dtype is None


def test_the_order_carries_the_mode_and_who_shares_the_gpu() -> None:
    shared = job(Mode("bf16", True), device=Device("cuda", "NVIDIA-H200", sharers=4))
    task = shared.tasks[0]
    order = order_of(shared, {task: shared.dataset(task)})
    assert (order.mode, order.sharers) == (Mode("bf16", True), 4)
    assert type(order).from_meta(order.to_meta()) == order
    timed = TimingJob(shared.submission, shared.profile, shared.device, "train", 64)
    assert timed.order("", "", "mixer").sharers == 4


def test_validity_is_looked_at_in_float32() -> None:
    examined = Examination.of(job(Mode("bf16")), InProcess("cpu", frozenset()))
    assert examined.job.mode == PLAIN


def test_a_training_under_autocast_is_close_to_float32_and_says_so() -> None:
    wide, narrow = ran(Mode()), ran(Mode("bf16"))
    assert narrow.identity.device_class == "cpu+bf16"
    assert narrow.budget["precision"] == "bf16"
    assert "precision" not in wide.budget
    assert narrow.identity.key != wide.identity.key
    assert (wide.graphs, narrow.graphs) == ("", "")
    losses = [[point.loss for point in record.curve] for record in (wide, narrow)]
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=2e-2)
    assert Record.from_json(narrow.to_json()) == narrow


class StandIn:
    """In the place of torch's graphs, which a CPU has none of."""

    def aside(self, do: Callable[[], Tensor]) -> Tensor:
        return do()

    def record(self, do: Callable[[], Tensor]) -> Callable[[], Tensor]:
        return do


def test_a_record_says_what_became_of_its_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "CudaRecorder", StandIn)
    graphed, eager = ran(Mode(graphs=True)), ran(Mode())
    assert (graphed.graphs, graphed.status) == ("replayed", "pass")
    assert [p.loss for p in graphed.curve] == pytest.approx([p.loss for p in eager.curve], rel=1e-5)
