"""Anatomies for records that have none: added where the saved model says the same, else refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from selectivbench.cli import main
from selectivbench.machine import Device
from selectivbench.profiles import get_profile
from selectivbench.record import Record
from selectivbench.reexamine import lacking
from selectivbench.runner import Job, run
from selectivbench.sandbox.launch import ForkServer
from selectivbench.saved import SavedModels
from selectivbench.store import RecordStore
from selectivbench.submission import load
from selectivbench.tasks import get_task
from selectivbench.template import write
from selectivbench.tracking import NullTracker


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, tuple[Record, ...]]:
    """A folder with models and sources, and the records of a short training of two tasks."""
    folder = tmp_path_factory.mktemp("trained")
    write(folder / "mine.py")
    tasks = (get_task("noisy_gaps"), get_task("gap_extrapolation"))
    device, smoke = Device("cpu", "cpu"), get_profile("smoke")
    job = Job(load(folder / "mine.py"), tasks, "base", smoke, 1, device, steps=2)
    launcher = ForkServer("cpu", frozenset())
    try:
        models = SavedModels(folder / "models")
        records = run(job, launcher, NullTracker(), lambda fit: fit(), models.write)
    finally:
        launcher.close()
    RecordStore(folder).write_source(job.submission.sha256, job.submission.source)
    return folder, records


def written(folder: Path, record: Record) -> Path:
    path = folder / f"{record.identity.stem}.json"
    path.write_text(record.to_json())
    return path


def bare(record: Record) -> Record:
    parts = tuple(replace(part, anatomy=None) for part in record.evaluations)
    return replace(record, evaluations=parts)


def test_both_tasks_of_a_training_gain_what_they_lost(trained, capsys) -> None:
    folder, records = trained
    paths = [written(folder, bare(record)) for record in records]
    assert main(["anatomy", *map(str, paths), "--models", str(folder / "models")]) == 0
    assert capsys.readouterr().out.split("\n")[:2] == [f"{path.name}: added" for path in paths]
    for path, record in zip(paths, records, strict=True):
        assert Record.from_json(path.read_text()) == record
        assert not lacking(record)
    assert main(["anatomy", str(paths[0]), "--models", "nowhere"]) == 0
    assert "nothing to add" in capsys.readouterr().out


def test_a_record_of_other_figures_is_left_as_it_is(trained, capsys) -> None:
    folder, (record, _) = trained
    parts = tuple(replace(p, accuracy=p.accuracy + 0.01) for p in bare(record).evaluations)
    other = replace(record, evaluations=parts)
    path = written(folder, other)
    assert main(["anatomy", str(path), "--models", str(folder / "models")]) == 0
    told = capsys.readouterr().out
    assert "left as it is (accuracy of the saved model on test: got" in told
    assert path.read_text() == other.to_json()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 2}, "saved model of mine on noisy_gaps"),
        ({"task": "noisy_gaps-v9"}, "task: got"),
        ({"source_sha256": "0" * 64}, "No such file"),
    ],
)
def test_what_is_missing_is_said(trained, capsys, change, words) -> None:
    folder, (record, _) = trained
    lost = replace(bare(record), identity=replace(record.identity, **change))
    path = written(folder, lost)
    assert main(["anatomy", str(path), "--models", str(folder / "models")]) == 0
    told = capsys.readouterr().out
    assert "left as it is" in told
    assert words in told
    assert path.read_text() == lost.to_json()


def test_a_folder_that_is_not_there_is_one_sentence(capsys) -> None:
    assert main(["anatomy", "nowhere", "--models", "nowhere"]) == 2
    assert "record: got 'nowhere'" in capsys.readouterr().err
