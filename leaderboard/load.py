"""Records from folders: read, checked, judged by today's bars; a refusal names file and reason."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from leaderboard.audits import AUDITS, read_audit
from leaderboard.plain import read_plain
from leaderboard.timings import read_timing
from leaderboard.validate import check, clip
from selectivbench.anatomy import Anatomy, merged
from selectivbench.audited import Audited
from selectivbench.errors import RecordError, UsageError, explain
from selectivbench.record import Point, Record
from selectivbench.store import SESSION, TIMINGS
from selectivbench.thresholds import Bar, bar_for, steps_to_bar
from selectivbench.times import Timing

if TYPE_CHECKING:
    import pandas as pd

RESULTS = Path(__file__).parent / "results"
SOURCES = "sources"
MANIFEST = "manifest.json"
BESIDE = (SESSION, "validity", AUDITS, TIMINGS)
"""Folders beside the records whose files are none."""
LARGEST_FILE = 4 * 2**20

T = TypeVar("T")
BarOf = Callable[[str, str, str], Bar | None]


@dataclass(frozen=True, slots=True)
class Case:
    """One record as the site needs it in memory: its curve and anatomies stay in the file.

    sha: of the file's bytes. moment: ``created`` in UTC, comparable as text.
    """

    record: Record
    path: Path
    sha: str
    moment: str
    steps_to_bar: int | None = None
    """See ``thresholds.steps_to_bar``; taken from the curve before it is let go."""

    def curve(self) -> tuple[Point, ...]:
        """The record's learning curve, read from the file again."""
        data = json.loads(self.path.read_text(encoding="utf-8"))
        return tuple(Point(**point) for point in data["curve"])

    def whole(self) -> Record:
        """The record with all that stayed in the file."""
        kept = Record.from_json(self.path.read_text(encoding="utf-8"))
        return replace(self.record, curve=kept.curve, evaluations=kept.evaluations)

    def anatomy(self) -> Anatomy | None:
        """Of all splits together; None where the record has none."""
        parts = [e.anatomy for e in self.whole().evaluations if e.anatomy is not None]
        return merged(parts) if parts else None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A file that is no usable record, and why."""

    file: str
    reason: str


@dataclass(frozen=True)
class Loaded:
    """All usable cases, sorted by file stem, and all refusals."""

    cases: tuple[Case, ...]
    refused: tuple[Refusal, ...]
    folders: tuple[Path, ...]
    audits: tuple[Audited, ...] = ()
    timings: tuple[Timing, ...] = ()

    def source(self, sha256: str) -> str | None:
        """Text of a stored submission, or None where it is not stored or not what its name says."""
        for folder in self.folders:
            path = folder / SOURCES / f"{sha256}.py"
            if path.is_file() and not path.is_symlink():
                data = path.read_bytes()
                if hashlib.sha256(data).hexdigest() == sha256:
                    return data.decode("utf-8", errors="replace")
        return None


def load(folders: Iterable[Path], bars: BarOf = bar_for) -> Loaded:
    """Every record under the folders. A second file with the same identity is refused."""
    roots = tuple(folders)
    cases: dict[str, Case] = {}
    refused: list[Refusal] = []
    share = _Sharer()
    for path, shown in _files(roots):
        try:
            case = read(path)
            if path.stem in cases:
                raise RecordError(
                    "duplicate of the record of the same name; remove one of the two."
                )
        except (RecordError, OSError, UnicodeDecodeError) as error:
            refused.append(Refusal(shown, _reason(error)))
        else:
            cases[path.stem] = share(replace(case, record=judged(case.record, bars)))
    refused += missing(roots, {*cases, *(Path(refusal.file).stem for refusal in refused)})
    audits, no_audits = _beside(roots, AUDITS, read_audit)
    timings, no_timings = _beside(roots, TIMINGS, read_timing)
    found = tuple(cases[stem] for stem in sorted(cases))
    return Loaded(found, (*refused, *no_audits, *no_timings), roots, audits, timings)


def _beside(
    roots: Iterable[Path], folder: str, read: Callable[[Path], T]
) -> tuple[tuple[T, ...], list[Refusal]]:
    """The files of a folder beside the records, and those that are not what they should be."""
    found, refused = [], []
    for path in (path for root in roots for path in sorted((root / folder).glob("*.json"))):
        try:
            found.append(read(path))
        except (RecordError, OSError, UnicodeDecodeError) as error:
            refused.append(Refusal(f"{folder}/{clip(path.name)}", _reason(error)))
    return tuple(found), refused


def missing(roots: Iterable[Path], seen: Collection[str]) -> list[Refusal]:
    """What the last run of a folder expected and did not write: never silently absent."""
    found = []
    for root in roots:
        for case, stem in sorted(_expected(root / "session" / MANIFEST).items()):
            if stem not in seen:
                reason = f"missing: the last run expected it as {clip(case)}; run that case again."
                found.append(Refusal(f"{clip(stem, 200)}.json", reason))
    return found


def _expected(manifest: Path) -> dict[str, str]:
    """Record stems by case id; a run that was killed while it wrote leaves nothing to expect."""
    try:
        data = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    pairs = data.items() if isinstance(data, dict) else ()
    return {str(case): str(stem) for case, stem in pairs}


def read(path: Path) -> Case:
    """One record file, checked; RecordError says why it cannot be used."""
    data = read_plain(path, "record", LARGEST_FILE)
    text = data.decode("utf-8")
    record = Record.from_json(text)
    check(record)
    if path.stem != record.identity.stem:
        raise RecordError(explain("file name", path.name, f"{record.identity.stem}.json"))
    bare = tuple(replace(part, anatomy=None) for part in record.evaluations)
    slim = replace(record, curve=(), evaluations=bare)
    sha = hashlib.sha256(data).hexdigest()
    return Case(slim, path, sha, _utc(record.created), steps_to_bar(record))


def judged(record: Record, bars: BarOf = bar_for) -> Record:
    """The record with today's verdict: pass and fail follow findings, score and bar, others stay."""
    who = record.identity
    bar = bars(who.task, who.profile, who.variant)
    broken = [finding for finding in record.validity if not finding.ok]
    if record.status in ("pass", "fail") and broken:
        return replace(record, status="invalid", cause=f"{broken[0]}.")
    if record.status not in ("pass", "fail") or bar is None or record.score is None:
        return record
    if record.score >= bar.bar:
        return replace(record, status="pass", cause="")
    return replace(record, status="fail", cause="")  # score and bar stand beside it on every page


def frame(folder: Path | str = RESULTS) -> pd.DataFrame:
    """One row for each usable record, with the columns of results.csv; missing figures are NA."""
    import pandas as pd

    from leaderboard.tables import RECORD_COLUMNS, record_row

    rows = [record_row(case) for case in load([Path(folder)]).cases]
    table = pd.DataFrame(rows, columns=[column.name for column in RECORD_COLUMNS])
    types = {"string": "object", "integer": "Int64", "number": "float64", "boolean": "boolean"}
    return table.astype({column.name: types[column.type] for column in RECORD_COLUMNS})


def _files(roots: tuple[Path, ...]) -> Iterator[tuple[Path, str]]:
    for root in roots:
        if not root.is_dir():
            raise UsageError(
                explain("records folder", str(root), "an existing folder", "run some cases first")
            )
        for path in record_files(root):
            yield path, clip(path.relative_to(root).as_posix(), 300)


def record_files(folder: Path) -> list[Path]:
    """Every file below a folder that should be a record."""
    found = folder.rglob("*.json")
    return sorted(path for path in found if path.relative_to(folder).parts[0] not in BESIDE)


def _reason(error: Exception) -> str:
    """Without the paths of this machine: the reason is published."""
    return clip(error.strerror if isinstance(error, OSError) else error, 500)


def _utc(created: str) -> str:
    if not created:
        return ""
    moment = datetime.fromisoformat(created)
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return aware.strftime("%Y-%m-%dT%H:%M:%SZ")


class _Sharer:
    """One object for each distinct entry, budget, environment and machine: memory stays flat."""

    def __init__(self) -> None:
        self._seen: dict[str, Any] = {}

    def __call__(self, case: Case) -> Case:
        record = case.record
        shared = replace(
            record,
            entry=self._one(record.entry, asdict(record.entry)),
            budget=self._one(record.budget, record.budget),
            environment=self._one(record.environment, record.environment),
            machine=self._one(record.machine, record.machine),
        )
        return replace(case, record=shared)

    def _one(self, value: Any, plain: Mapping[str, Any]) -> Any:
        return self._seen.setdefault(json.dumps(plain, sort_keys=True), value)
