"""A folder of records that is also a cache: written atomically, locked by training, never lost.

What validity checks found is kept beside the records and written into each of them, whichever of
the two comes first: under xdist nobody knows.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from glob import escape
from pathlib import Path

from selectivbench import atomic
from selectivbench.errors import RecordError, UsageError, explain
from selectivbench.record import REUSED, Finding, Identity, Record, digest
from selectivbench.thresholds import judge

SESSION, TIMINGS = "session", "timings"
"""Folders beside the records: the events of trainings, and what was timed."""


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
            for name in ("sources", "locks", SESSION, "validity"):
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
        record = judge(with_findings(record, self.findings(identity)))
        return Found(record, "same submission, budget and environment")

    def last(self, identity: Identity) -> Record | None:
        """What the last run of a case left, whatever its status and age; None where it left nothing."""
        try:
            return Record.from_json(self.path(identity).read_text(encoding="utf-8"))
        except (OSError, RecordError, UnicodeDecodeError):
            return None

    def write(self, record: Record) -> Record:
        """Write a record so that a reader sees the old file or the new one, never a part.

        Gives it as it was written: with what validity checks have found of its submission.
        """
        with self._findings_locked(record.identity):
            found = self.findings(record.identity)
            kept = judge(with_findings(record, found)) if found else record
            self.write_text(self.path(record.identity), kept.to_json())
        return kept

    def findings(self, identity: Identity) -> tuple[Finding, ...]:
        """What checks have found so far of the submission of an identity; () where none was run."""
        try:
            rows = json.loads(self._findings_path(identity).read_text(encoding="utf-8"))["findings"]
            return tuple(Finding(**row) for row in rows)
        except (OSError, ValueError, KeyError, TypeError):
            return ()  # not there yet; or not ours, and the next finding replaces it

    def note(self, identity: Identity, finding: Finding) -> None:
        """Keep a finding, also in the records of its submission that are there already."""
        with self._findings_locked(identity):
            known = _merged(self.findings(identity), (finding,))
            text = json.dumps(
                {**identity.examined, "findings": [asdict(f) for f in known]}, indent=1
            )
            self.write_text(self._findings_path(identity), text + "\n")
            for path, record in self._examined(identity):
                noted = judge(with_findings(record, known))
                self.write_text(path, noted.to_json(), path.stat().st_mtime_ns)

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

    def write_text(self, path: Path, text: str, moment: int | None = None) -> Path:
        """Write a file of the folder atomically. moment: of its last change, in ns; by default now."""
        try:
            atomic.write(path, text.encode(), moment)
        except OSError as error:
            got = f"{path} ({error.strerror})"
            raise UsageError(explain("record", got, "a disk with room, and rights")) from error
        return path

    def _findings_path(self, identity: Identity) -> Path:
        return self.folder / "validity" / f"{digest(identity.examined)}.json"

    def _findings_locked(self, identity: Identity) -> AbstractContextManager[None]:
        return self.lock(f"validity-{digest(identity.examined)}")

    def _examined(self, identity: Identity) -> Iterator[tuple[Path, Record]]:
        """The records that a finding on an identity's submission is about."""
        for path in sorted(self.folder.glob(f"{escape(identity.entry)}-*.json")):
            with suppress(RecordError, UnicodeDecodeError):  # its own case will move it aside
                record = Record.from_json(path.read_text(encoding="utf-8"))
                if record.identity.examined == identity.examined:
                    yield path, record

    def _difference(self, identity: Identity) -> str:
        """What keeps the nearest older record of this case from being re-used."""
        same = f"{identity.entry}-{identity.task}-{identity.variant}-{identity.profile}-"
        for path in sorted(self.folder.glob(f"{escape(same)}seed{identity.seed}-*.json")):
            try:
                other = asdict(Record.from_json(path.read_text(encoding="utf-8")).identity)
            except (RecordError, UnicodeDecodeError):
                continue  # not ours to explain; its own case will move it aside
            changed = [key for key, value in asdict(identity).items() if other[key] != value]
            return f"no record yet; an older one differs in {', '.join(changed)}"
        return "no record yet"


def with_findings(record: Record, findings: Iterable[Finding]) -> Record:
    """The record with newer findings in the place of older ones of the same check."""
    return replace(record, validity=_merged(record.validity, findings))


def _merged(old: Iterable[Finding], new: Iterable[Finding]) -> tuple[Finding, ...]:
    by_check = {finding.check: finding for finding in (*old, *new)}
    return tuple(by_check[check] for check in sorted(by_check))
