"""Always on: one file of JSON lines for each training, to be watched while it runs or read later.

``SESSION/STEM.events.jsonl``, STEM being that of the trained task's record. A later run of the same
training is appended. The writer holds a lock on the file, so a reader can tell a training that runs
from one whose process was killed, without knowing its machine or process.

- ``started``: key, entry, task, tasks, variant, profile, seed, steps
- ``point``: step, of, loss (nats), accuracy (at validations)
- ``done``: key, task, status, accuracy, score; one for each record
- ``ended``

Each has its ``time`` in seconds since 1970. Some 4 kB a training.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

from selectivbench.record import Record
from selectivbench.tracking.contract import Follower, Start

ENDING = ".events.jsonl"


class Events:
    """Writes the events of each training to a file of its own in a folder."""

    name = "events"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def follow(self, start: Start) -> Follower:
        """Open the training's file and write its first event."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return _Lines(self._folder / f"{start.identity.stem}{ENDING}", start)

    def known(self, record: Record, source: str) -> None:
        """Nothing: its training has its events."""

    def close(self) -> None:
        """Nothing: each file is closed with its training."""


class _Lines:
    """One training's file. Each event is one write to the end of the file, so none is torn."""

    def __init__(self, path: Path, start: Start) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        _hold(self._descriptor)
        identity = start.identity
        if _torn(self._descriptor):  # by a process that was killed while it wrote
            os.write(self._descriptor, b"\n")
        self._write(
            "started",
            key=identity.key,
            entry=identity.entry,
            task=identity.task,
            tasks=start.tasks,
            variant=identity.variant,
            profile=identity.profile,
            seed=identity.seed,
            steps=start.steps,
        )

    def point(self, step: int, steps: int, loss: float, accuracy: float | None) -> None:
        self._write("point", step=step, of=steps, loss=loss, accuracy=accuracy)

    def done(self, record: Record) -> None:
        self._write(
            "done",
            key=record.identity.key,
            task=record.identity.task,
            status=record.status,
            accuracy=record.accuracy,
            score=record.score,
        )

    def end(self) -> None:
        try:
            self._write("ended")
        finally:
            os.close(self._descriptor)

    def _write(self, event: str, **facts: Any) -> None:
        line = json.dumps({"event": event, "time": round(time.time(), 3), **facts}, allow_nan=False)
        data = line.encode() + b"\n"
        if os.write(self._descriptor, data) != len(data):
            raise OSError("no room for another event")


def _torn(descriptor: int) -> bool:
    """Whether the file ends in the middle of a line."""
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"


def _hold(descriptor: int) -> None:
    """Lock the file. A reader's look takes the lock for an instant; nobody waits long for that."""
    for _ in range(100):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)
        else:
            return
