"""A folder of records that is also a cache: written atomically, locked by training, never lost."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from selectivbench.errors import RecordError, UsageError, explain
from selectivbench.record import REUSED, Identity, Record
from selectivbench.thresholds import judge

TIMINGS = "timings"
"""The folder beside the records for what was timed."""


@dataclass(frozen=True)
class Found:
    """What a look into the cache gave: a record to re-use, or why there is none."""

    record: Record | None
    reason: str


class RecordStore:
    """Records of one folder. ``fresh_after`` (seconds, file clock) ignores whatever is older."""

    def __init__(self, folder: Path, fresh_after: float = 0.0) -> None:
        self.folder, self.fresh_after = folder, fresh_after
        try:
            for name in ("sources", "locks", "session"):
                (folder / name).mkdir(parents=True, exist_ok=True)
            probe, name = tempfile.mkstemp(dir=folder)
            os.close(probe)
            os.unlink(name)
        except OSError as error:
            raise UsageError(
                explain(
                    "records folder", f"{folder} ({error.strerror})", "a folder one can write to"
                )
            ) from error

    def path(self, identity: Identity) -> Path:
        """Where the record of an identity is or would be."""
        return self.folder / f"{identity.stem}.json"

    def find(self, identity: Identity) -> Found:
        """The record to re-use, its verdict judged anew, or the reason that there is none."""
        path = self.path(identity)
        if not path.is_file():
            return Found(None, self._difference(identity))
        if path.stat().st_mtime < self.fresh_after:
            return Found(None, "asked to run again")
        try:
            record = Record.from_json(path.read_text(encoding="utf-8"))
            if record.identity != identity:
                raise RecordError("its identity does not belong to its file name.")
        except (RecordError, UnicodeDecodeError) as error:
            aside = path.with_suffix(".corrupt")
            path.replace(aside)
            return Found(None, f"the record was corrupt ({error}); moved to {aside.name}")
        if record.status not in REUSED:
            return Found(None, f"the last try ended in {record.status}")
        return Found(judge(record), "same submission, budget and environment")

    def write(self, record: Record) -> Path:
        """Write a record so that a reader sees the old file or the new one, never a part."""
        return self.write_text(self.path(record.identity), record.to_json())

    def write_source(self, sha256: str, source: str) -> None:
        """Keep a submission's text beside its records, under its digest."""
        path = self.folder / "sources" / f"{sha256}.py"
        if not path.is_file():
            self.write_text(path, source)

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """One holder at a time among all processes of this machine; freed when the holder dies."""
        with open(self.folder / "locks" / f"{name}.lock", "w", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def write_text(self, path: Path, text: str) -> Path:
        """Write a file of the folder atomically."""
        try:
            self._replace(path, text)
        except OSError as error:
            got = f"{path} ({error.strerror})"
            raise UsageError(explain("record", got, "a disk with room, and rights")) from error
        return path

    def _replace(self, path: Path, text: str) -> None:
        descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        try:
            os.fchmod(descriptor, 0o644)  # 0600 would shut colleagues out of a shared folder
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise

    def _difference(self, identity: Identity) -> str:
        """What keeps the nearest older record of this case from being re-used."""
        same = f"{identity.entry}-{identity.task}-{identity.variant}-{identity.profile}-"
        for path in sorted(self.folder.glob(f"{same}seed{identity.seed}-*.json")):
            try:
                other = asdict(Record.from_json(path.read_text(encoding="utf-8")).identity)
            except (RecordError, UnicodeDecodeError):
                continue  # not ours to explain; its own case will move it aside
            changed = [key for key, value in asdict(identity).items() if other[key] != value]
            return f"no record yet; an older one differs in {', '.join(changed)}"
        return "no record yet"
