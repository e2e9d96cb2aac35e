"""One training at sizes of one's own: what it leaves, what it re-uses, and that it can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from selectivbench import custom
from selectivbench.checkpoints import Checkpoints
from selectivbench.cli import main
from selectivbench.custom import CHECKPOINTS, Place, Training, run_training
from selectivbench.errors import UsageError
from selectivbench.machine import resolve
from selectivbench.record import Record
from selectivbench.saved import FOLDER
from selectivbench.store import SESSION, RecordStore
from selectivbench.tracking.lines import Lines

SOURCE = """
from torch import nn
class Mixer(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.gru = nn.GRU(spec.d_model, spec.d_model, batch_first=True)
        self.d_state = spec.d_state
    def forward(self, x):
        return self.gru(x)[0]
def state_size(spec):
    return spec.d_state or spec.d_model
TRAIN = {"lr": 3e-3}
"""
SMALL = {"width": 16, "layers": 1, "steps": 12, "batch_size": 4, "dropout": 0.1}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def training(file: Path) -> Any:
    def make(task: str = "memorization", **sizes: Any) -> Training:
        return Training(file, task, None, "smoke", 1, SMALL | sizes)

    return make


def place(tmp_path: Path, **changes: Any) -> Place:
    return Place(tmp_path / "out", device="cpu", isolate="none", **changes)


def timeless(record: Record) -> Record:
    untimed = replace(record, seconds={}, utilisation=None, created="")
    return replace(untimed, peak_memory=None, baseline_memory=None)


def test_a_record_is_marked_and_has_no_verdict(training: Any, tmp_path: Path) -> None:
    asked = training(d_state=7, lr=1e-2, dataset_size=64)
    record = run_training(asked, place(tmp_path))
    assert record.custom == {**SMALL, "d_state": 7, "lr": 1e-2, "dataset_size": 64}
    assert record.status in ("pass", "fail")  # by conformance, as always in smoke
    assert record.state_size == 7
    assert record.curve[-1].step == 12
    assert record.curve[-1].accuracy is not None  # what a sweep chooses by
    assert record.budget["budget"]["lr"] == 1e-2  # before the file's own
    assert record.budget["budget"]["samples"] == 64
    assert record.budget["model"]["d_model"] == 16
    assert (tmp_path / "out" / f"{record.identity.stem}.json").is_file()
    assert RecordStore(tmp_path / "out").find(record.identity).record == record
    assert run_training(asked, place(tmp_path)) == record  # done already
    assert not list((tmp_path / "out").glob(f"{CHECKPOINTS}/*"))
    (events,) = (tmp_path / "out" / SESSION).glob("*.events.jsonl")
    told = [json.loads(line)["event"] for line in events.read_text().splitlines()]
    assert told == ["started", *["point"] * len(record.curve), "done", "ended"]


def test_the_bar_of_a_profile_does_not_judge_it(a_record: Record, tmp_path: Path) -> None:
    low = replace(a_record, score=0.1, custom={})
    store = RecordStore(tmp_path)
    store.write(low)
    assert store.find(low.identity).record == low


def test_the_files_own_rate_holds_where_none_is_given(training: Any) -> None:
    from selectivbench.machine import Device

    assert training().job(Device("cpu", "cpu")).plan.budget.lr == 3e-3


def test_a_custom_training_is_never_a_benchmark_case(file: Path) -> None:
    from selectivbench.machine import Device

    job = Training(file, "memorization", None, "lite", 1, {}).job(Device("cpu", "cpu"))
    plain = replace(job, custom=None)
    task = job.tasks[0]
    assert job.identity(task).key != plain.identity(task).key


def test_the_key_is_that_of_what_is_trained(training: Any, tmp_path: Path) -> None:
    key = training(lr=1e-3).key
    assert training(lr="0.001").key == key
    elsewhere = tmp_path / "deep" / "mine.py"
    elsewhere.parent.mkdir()
    elsewhere.write_text(SOURCE)
    assert replace(training(lr=1e-3), submission=elsewhere).key == key
    assert replace(training(lr=1e-3), variant="amb8").key == key
    assert replace(training(lr=1e-3), task="memorization-v1").key == key
    elsewhere.write_text(SOURCE + "#")
    others = [
        replace(training(lr=1e-3), submission=elsewhere),
        replace(training(lr=1e-3), seed=2),
        training("selective_copy", lr=1e-3),
        training(lr=1e-4),
        training(),
    ]
    assert len({key, *(other.key for other in others)}) == 6


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"task": "memorisation"}, "did you mean 'memorization'"),
        ({"profile": "smok"}, "did you mean 'smoke'"),
        ({"variant": "amb9"}, "variant of memorization-v1 at smoke: got 'amb9', allowed: amb8"),
        ({"sizes": {"widht": 3}}, "did you mean 'width'"),
        ({"sizes": {"heads": 3}}, "heads: got 3"),
    ],
)
def test_what_does_not_exist_is_said_at_once(
    training: Any, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        replace(training(), **change)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"dataset_size": 1_281}, "dataset_size: got 1281, allowed: 1280 at most"),
        ({"batch_size": 1_281}, "batch_size: got 1281, allowed: 1280 at most"),
    ],
)
def test_more_data_than_there_is(
    training: Any, tmp_path: Path, sizes: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        run_training(training(**sizes), place(tmp_path))


def test_a_kept_model_is_evaluated_without_training(training: Any, tmp_path: Path) -> None:
    asked = training("noisy_gaps", steps=4)
    record = run_training(asked, place(tmp_path, save=True))
    (model,) = (tmp_path / "out" / FOLDER).glob("*.safetensors")
    assert model.stem == record.identity.key
    again = run_training(training("gap_extrapolation", steps=4), place(tmp_path, from_saved=True))
    assert again.from_saved
    assert not record.from_saved
    assert again.identity.task.startswith("gap_extrapolation-v")
    assert again.curve == record.curve
    assert again.seconds["fit"] == record.seconds["fit"]
    same = tmp_path / "elsewhere"
    (same / FOLDER).mkdir(parents=True)
    (same / FOLDER / model.name).write_bytes(model.read_bytes())
    repeated = run_training(asked, replace(place(tmp_path), out=same, from_saved=True))
    assert (repeated.accuracy, repeated.evaluations) == (record.accuracy, record.evaluations)


def test_a_record_without_its_model_is_trained_again(training: Any, tmp_path: Path) -> None:
    first = run_training(training(), place(tmp_path))
    second = run_training(training(), place(tmp_path, save=True))
    assert timeless(replace(second, saved_numbers=None)) == timeless(first)
    assert len(list((tmp_path / "out" / FOLDER).glob("*"))) == 1


def test_a_model_too_large_for_its_file_is_invalid(training: Any, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save

    run_training(training(), place(tmp_path, save=True))
    (model,) = (tmp_path / "out" / FOLDER).glob("*")
    model.write_bytes(save({"weight": torch.zeros(200_000)}))
    (record_file,) = (tmp_path / "out").glob("*.json")
    record_file.unlink()
    record = run_training(training(), place(tmp_path, from_saved=True))
    assert record.status == "invalid"
    assert "hidden-numbers" in record.cause


def test_the_command_does_the_same(training: Any, tmp_path: Path) -> None:
    asked = training(lr=1e-3)
    program, *words = asked.command()
    assert program == "selectivbench"
    out = tmp_path / "out"
    assert main([*words, "--out", str(out), "--device", "cpu", "--isolate", "none"]) == 0
    job = asked.job(resolve("cpu"))
    assert RecordStore(out).find(job.identity(job.tasks[-1])).record is not None


def test_the_line_has_figures_or_the_cause(a_record: Record) -> None:
    said = custom.line(a_record)
    assert said.startswith("lstm selective_copy-v1 base lite seed 1: accuracy 0.9900, score 0.9886")
    assert "validation 0.5000" in said
    broken = replace(a_record, status="oom", cause="too large", accuracy=None)
    assert custom.line(broken).endswith("oom: too large")


def test_progress_is_one_line_a_point(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(sys.stdout)
    lines.point(5, 20, 1.25, None)
    lines.point(10, 20, 1.0, 0.5)
    first, second = capsys.readouterr().out.splitlines()
    assert first == "step 5/20, loss 1.250"
    assert second.startswith("step 10/20, loss 1.000, accuracy 0.500, ")
    assert second.endswith(" s left")


KILLED = """
import sys, time
from pathlib import Path
from selectivbench import checkpoints, custom
from selectivbench.tracking import NullTracker

class Slow(NullTracker):  # the controller's reader waits, so that the child is never far ahead
    def point(self, *_):
        time.sleep(0.2)

training = custom.Training(Path(sys.argv[1]), "memorization", None, "smoke", 1, {sizes})
custom.run_training(training, custom.Place(Path(sys.argv[2]), "cpu", "process", every=0.0), Slow())
"""


def test_killed_and_begun_again_it_ends_with_the_same_numbers(
    training: Any, file: Path, tmp_path: Path
) -> None:
    whole = run_training(training(steps=40), place(tmp_path))
    out = tmp_path / "killed"
    code = KILLED.replace("{sizes}", repr(SMALL | {"steps": 40}))
    process = subprocess.Popen([sys.executable, "-c", code, str(file), str(out)])
    deadline = time.monotonic() + 120
    while not list(out.glob(f"{CHECKPOINTS}/*.safetensors")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not list(out.glob("*.json"))
    follower = Follower()
    again = run_training(training(steps=40), replace(place(tmp_path), out=out), follower)
    assert 0 < len(follower.seen) < len(whole.curve)  # the beginning was not done again
    assert again.curve == whole.curve
    assert again.evaluations == whole.evaluations
    assert not list(out.glob(f"{CHECKPOINTS}/*"))


class Follower:
    """Notes where the training has come to."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def point(self, *values: Any) -> None:
        self.seen.append(values)

    def done(self, record: Record) -> None:
        assert record.custom is not None


def test_a_sender_that_is_slow_to_decide_confuses_no_reader(
    training: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hesitant(Checkpoints):
        def due(self, step: int) -> bool:
            time.sleep(0.7)
            return super().due(step)

    plain = run_training(training(steps=3), replace(place(tmp_path), out=tmp_path / "plain"))
    monkeypatch.setattr(custom, "Checkpoints", Hesitant)
    record = run_training(training(steps=3), place(tmp_path, every=0.0))
    assert (record.cause, record.curve) == (plain.cause, plain.curve)


def test_a_damaged_checkpoint_is_said_and_kept(training: Any, tmp_path: Path) -> None:
    from selectivbench.machine import Device

    job = training().job(Device("cpu", "cpu"))
    path = tmp_path / "out" / CHECKPOINTS / f"{job.identity(job.tasks[0]).key}.safetensors"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"torn")
    with pytest.raises(UsageError, match=r"checkpoint: got .*, allowed: a whole file; remove it"):
        run_training(training(), place(tmp_path))
    assert path.read_bytes() == b"torn"
