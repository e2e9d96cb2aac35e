"""The folder of one sweep: what was asked for, a record for each cell, a log.

::

    sweep.json           the sweep as it was first run, to compare with later
    records/ab/KEY.json  one for each cell that ended; ``ab`` are the first digits of its key
    work/KEY/            scratch of a cell that runs: its lock, its checkpoint
    log.jsonl            a line for each cell that ended or was lost, in the driver's order

Records are the truth. The log is an index of them that is quick to read: where it says of a record
that is there that it is done, the record is not opened. What it says of one that is not there, or
says otherwise (its driver died first, another process ended the cell), does not count.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from selectivbench import atomic
from selectivbench.errors import UsageError, explain
from selectivbench.record import REUSED


class Folder:
    """All paths of a sweep, and the only code that writes there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "log.jsonl"

    def prepare(self, asked: Mapping[str, Any]) -> None:
        """Make the folder and keep what is asked for in it."""
        try:
            (self.root / "records").mkdir(parents=True, exist_ok=True)
            (self.root / "work").mkdir(exist_ok=True)
            text = json.dumps(asked, indent=1, sort_keys=True) + "\n"
            atomic.write(self.root / "sweep.json", text.encode())
        except OSError as error:
            got = f"{self.root} ({error.strerror})"
            raise UsageError(explain("sweep folder", got, "a folder one can write to")) from error

    def asked(self) -> dict[str, Any] | None:
        """What was asked for when it was first run; None where nothing was."""
        path = self.root / "sweep.json"
        if not path.is_file():
            return None
        asked: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return asked

    def path(self, key: str) -> Path:
        """Where the record of a key is or would be."""
        return self.root / "records" / key[:2] / f"{key}.json"

    def read(self, key: str) -> str | None:
        """The text of a record, None where there is none."""
        try:
            return self.path(key).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def write(self, key: str, text: str) -> None:
        """Put a record in its place; a reader sees the old one or the new one, never a part."""
        path = self.path(key)
        path.parent.mkdir(exist_ok=True)
        atomic.write(path, text.encode())

    @contextmanager
    def working(self, key: str) -> Iterator[Path]:
        """Scratch of a key, held by one process at a time; gone once the cell need not be tried again.

        After an error it stays: a checkpoint in it is where the next try goes on.
        """
        scratch = self.root / "work" / key
        scratch.mkdir(parents=True, exist_ok=True)
        with open(scratch / "lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield scratch
            record = self.path(key)
            if record.is_file() and status_in(record.read_text(encoding="utf-8")) in REUSED:
                shutil.rmtree(scratch, ignore_errors=True)

    def known(self) -> dict[str, str]:
        """Last status of every cell that ended, by key: its record's, else why it has none."""
        logged = {line["key"]: line["status"] for line in self.lines()}
        found = {key: self._status(key, logged.get(key)) for key in self._keys()}
        without = {key: status for key, status in logged.items() if status not in REUSED}
        return without | found

    def _keys(self) -> Iterator[str]:
        """Of every record."""
        shards = self.root / "records"
        for shard in sorted(shards.iterdir()) if shards.is_dir() else ():
            for name in os.listdir(shard):
                if name.endswith(".json"):
                    yield name.removesuffix(".json")

    def _status(self, key: str, logged: str | None) -> str:
        """Of a record that is there. One that is done stays so: the log can be believed."""
        if logged in REUSED:
            return logged
        return status_in(self.path(key).read_text(encoding="utf-8"))

    def lines(self) -> Iterator[dict[str, Any]]:
        """The log; a line that a dying driver left unfinished is passed over."""
        if not self.log.is_file():
            return
        with self.log.open(encoding="utf-8") as file:
            for line in file:
                if line.endswith("}\n"):
                    yield json.loads(line)

    @contextmanager
    def driven(self) -> Iterator[Log]:
        """The log to write to, for the one driver that a sweep may have at a time."""
        with open(self.root / "driver.lock", "w", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                what, got = f"sweep {self.root}", "a second driver"
                remedy = "see `selectivbench sweep status`"
                raise UsageError(explain(what, got, "one at a time", remedy)) from None
            with self.log.open("a", encoding="utf-8") as file:
                if file.tell() and not _ends_in_a_line(self.log):
                    file.write("\n")
                yield Log(file)

    def is_driven(self) -> bool:
        """Whether a driver is at work on this machine."""
        try:
            with open(self.root / "driver.lock", encoding="utf-8") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def running(self) -> int:
        """Cells that were begun and have no record yet."""
        work = self.root / "work"
        begun = os.listdir(work) if work.is_dir() else ()
        return sum(not self.path(key).is_file() for key in begun)


class Log:
    """Lines at the end of ``log.jsonl``."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def note(self, key: str, status: str, **more: Any) -> None:
        """One line; it is on its way to the disk when this returns."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"at": now, "key": key, "status": status, **{k: v for k, v in more.items() if v}}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def status_in(text: str) -> str:
    """The status of a record, from its text.

    >>> status_in('{"status": "pass"}')
    'pass'
    """
    return str(json.loads(text)["status"])


def _ends_in_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
