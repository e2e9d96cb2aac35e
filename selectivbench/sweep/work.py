"""What an engine carries to another process: a piece of work with a stable key, done once."""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from selectivbench.record import REUSED
from selectivbench.sweep.folder import Folder, status_in


@dataclass(frozen=True)
class Report:
    """How a piece of work ended.

    status: of its record; ``error`` with a cause where it ended without one. text: the record, only
    where whoever ran it had no folder to put it in.
    """

    key: str
    status: str
    cause: str = ""
    text: str = ""
    seconds: float = 0.0

    @property
    def done(self) -> bool:
        """It has a result; anything else had failed, and may be tried again."""
        return self.status in REUSED


class Work(Protocol):
    """One cell. It is pickled, so its class must be importable where it runs."""

    @property
    def key(self) -> str:
        """Hex digits that name everything that decides its result."""

    def run(self, scratch: Path) -> str:
        """Do it; the text of its record. ``scratch`` is a folder that outlives a crash."""


def execute(work: Work, root: str | None) -> Report:
    """Run a piece of work where an engine has put it. Never raises for what the work does.

    root: the sweep's folder where this machine sees it: the record is written there. Two executions
    of one key (a restarted driver, a worker that was thought dead) wait for each other, and the
    second finds the record of the first.
    """
    if root is None:
        with tempfile.TemporaryDirectory() as scratch:
            return _attempt(work, Path(scratch))
    folder = Folder(Path(root))
    with folder.working(work.key) as scratch_of_key:
        text = folder.read(work.key)
        if text is not None and (status := status_in(text)) in REUSED:
            return Report(work.key, status)
        report = _attempt(work, scratch_of_key)
        if report.text:
            folder.write(work.key, report.text)
    return Report(work.key, report.status, report.cause, seconds=report.seconds)


def _attempt(work: Work, scratch: Path) -> Report:
    began = time.monotonic()
    try:
        text = work.run(scratch)
    except Exception as error:  # whatever it is, it is this cell's end and not the worker's
        cause = f"{type(error).__name__}: {error}"
        return Report(work.key, "error", cause, seconds=time.monotonic() - began)
    took = time.monotonic() - began
    return Report(work.key, status_in(text), _cause_in(text), text=text, seconds=took)


def _cause_in(text: str) -> str:
    """The last line of what a record gives as the cause: of a traceback, the error."""
    return str(json.loads(text).get("cause", "")).strip().rpartition("\n")[2]
