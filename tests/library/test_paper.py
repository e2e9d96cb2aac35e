"""Every task of the paper profile really starts, on a CPU: built, trained, validated, evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from selectivbench.custom import Place, Training, run_training
from selectivbench.job import Job
from selectivbench.machine import Device
from selectivbench.profiles import get_profile
from selectivbench.runner import run
from selectivbench.sandbox.launchers import Launchers
from selectivbench.sandbox.levels import resolve
from selectivbench.submission import find_files, load
from selectivbench.tasks import TASKS, get_task
from selectivbench.tracking import NullTracker

FOLDER = Path(__file__).parents[2] / "submissions" / "paper"
PUBLISHED = ("memorization", "noisy_gaps", "gap_extrapolation", "distractors")
TINY = {"width": 32, "layers": 2, "batch_size": 2, "steps": 2, "dataset_size": 4, "held_out": 2}


@pytest.fixture(scope="module")
def launchers() -> Iterator[Launchers]:
    started = Launchers("cpu", resolve("process"))
    yield started
    started.close()


def test_a_small_copy_of_a_published_run_starts(tmp_path: Path, launchers: Launchers) -> None:
    """The published stack, data and vocabulary, but narrow and briefly."""
    small = Training(FOLDER / "transformer.py", "distractors", None, "paper", 1, TINY)
    record = run_training(small, Place(tmp_path, device="cpu"), launchers=launchers)
    assert (record.status, record.cause) == ("pass", "")
    assert record.budget["model"]["post_norm"]
    assert len(record.curve) == 2
    assert all(point.accuracy is not None for point in record.curve)


@pytest.mark.full
@pytest.mark.parametrize("entry", [path.stem for path in find_files([FOLDER])])
@pytest.mark.parametrize("task", PUBLISHED)
def test_every_published_layer_starts_on_every_published_task(
    tmp_path: Path, launchers: Launchers, entry: str, task: str
) -> None:
    small = Training(FOLDER / f"{entry}.py", task, None, "paper", 1, TINY)
    record = run_training(small, Place(tmp_path, device="cpu"), launchers=launchers)
    assert (record.status, record.cause) == ("pass", "")


@pytest.mark.full
@pytest.mark.parametrize("task", [t.name for t in TASKS if t.variants.get("paper")])
def test_a_rehearsal_of_two_steps_ends_at_full_size(launchers: Launchers, task: str) -> None:
    """As ``--selectiv-profile=paper --selectiv-steps=2``; takes minutes, and three quarters of the
    memory that is free where that is less than 16 GB: there a batch is split."""
    asked = get_task(task)
    trained = get_task(asked.trains_on)
    tasks = (asked,) if trained.id == asked.id else (trained, asked)
    submission = load(FOLDER / "transformer.py")
    variant, device = asked.variants["paper"][0], Device("cpu", "cpu")
    job = Job(submission, tasks, variant, get_profile("paper"), 1, device, steps=2)
    launcher = launchers.of(submission.imports)
    for record in run(job, launcher, NullTracker(), lambda fit: fit()):
        assert record.accuracy is not None, record.cause
