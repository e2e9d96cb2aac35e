"""Older records gain their anatomies: the saved model answers again, and nothing is trained.

A record is changed only where the model gives the very figures that it has, so that an anatomy is
always of the answers that the record tells of.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from selectivbench import atomic, machine
from selectivbench.errors import RecordError, SelectivError, UsageError, explain
from selectivbench.profiles import get_profile
from selectivbench.record import Evaluation, Identity, Record
from selectivbench.runner import Job, run_saved
from selectivbench.sandbox import levels
from selectivbench.sandbox.launchers import Launchers
from selectivbench.saved import SavedModels
from selectivbench.submission import Submission, load
from selectivbench.tasks import get_task

SAME = 1e-9
"""How far a figure may be from the record's: the same answers, whatever the sum's last digit."""


def perform(paths: Iterable[Path], models: Path, isolate: str) -> str:
    """Add an anatomy to every record file that lacks one; a line for each file.

    Sources are looked for in ``sources/`` beside the record, models (``KEY.safetensors``) in a
    folder. A record that cannot be completed is left as it is, and its line says why.
    """
    launchers = Launchers(machine.resolve("auto").kind, levels.resolve(isolate))
    try:
        lines = [_line(path, SavedModels(models), launchers) for path in _files(paths)]
    finally:
        launchers.close()
    return "\n".join(lines)


def _files(paths: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise UsageError(explain("record", str(path), "an existing file or folder"))
        found += sorted(path.glob("*.json")) if path.is_dir() else [path]
    return found


def _line(path: Path, models: SavedModels, launchers: Launchers) -> str:
    try:
        record = Record.from_json(path.read_text(encoding="utf-8"))
        if not lacking(record):
            return f"{path.name}: nothing to add"
        with tempfile.TemporaryDirectory() as folder:
            submission = _source(path, record, Path(folder))
            whole = completed(record, submission, models, launchers)
        atomic.write(path, whole.to_json().encode())
    except (SelectivError, OSError, UnicodeDecodeError) as error:
        return f"{path.name}: left as it is ({error})"
    return f"{path.name}: added"


def lacking(record: Record) -> bool:
    """Whether some evaluation could have an anatomy and has none."""
    hits = record.metric == "accuracy"
    return hits and any(part.anatomy is None for part in record.evaluations)


def completed(
    record: Record, submission: Submission, models: SavedModels, launchers: Launchers
) -> Record:
    """The record with the anatomies of its saved model's answers.

    UsageError without a model, RecordError where the model does not give the record's figures.
    """
    job, trained = _job(record, submission)
    saved = models.find(trained)
    again = run_saved(job, launchers.of(submission.imports), saved)[-1]
    if again.accuracy is None:
        raise RecordError(f"its model cannot be examined: {again.status}: {again.cause}")
    return replace(record, evaluations=_joined(record.evaluations, again.evaluations))


def _job(record: Record, submission: Submission) -> tuple[Job, Identity]:
    """What is to be examined, and the identity of the training that its model comes from."""
    who = record.identity
    task = get_task(who.task)
    trained = get_task(task.trains_on)
    tasks = (task,) if trained.id == task.id else (trained, task)
    device, mode = machine.used(who.device_class)
    profile = get_profile(who.profile)
    job = Job(submission, tasks, who.variant, profile, who.seed, device, mode=mode)
    return job, replace(who, task=trained.id)


def _joined(old: Sequence[Evaluation], new: Sequence[Evaluation]) -> tuple[Evaluation, ...]:
    found = {part.split: part for part in new}
    for part in old:
        again = found.get(part.split)
        if again is None or abs(again.accuracy - part.accuracy) > SAME:
            got = f"{again.accuracy:.6f}" if again else "no such split"
            remedy = "examine it on the machine and versions of the record"
            what = f"accuracy of the saved model on {part.split}"
            raise RecordError(explain(what, got, f"the record's {part.accuracy:.6f}", remedy))
    return tuple(replace(part, anatomy=found[part.split].anatomy) for part in old)


def _source(path: Path, record: Record, folder: Path) -> Submission:
    """The record's own submission, under its entry's name."""
    who = record.identity
    stored = path.parent / "sources" / f"{who.source_sha256}.py"
    copy = folder / f"{who.entry}.py"
    copy.write_bytes(stored.read_bytes())
    submission = load(copy)
    if submission.sha256 != who.source_sha256:
        raise RecordError(explain("sha256 of the source", submission.sha256, who.source_sha256))
    return submission
