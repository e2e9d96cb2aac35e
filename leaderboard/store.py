"""``add``: copy records and the sources they were made from into the committed results."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from leaderboard.audits import AUDITS
from leaderboard.load import SOURCES, Case, Refusal, read, record_files
from leaderboard.timings import read_timing
from selectivbench.errors import RecordError, UsageError, explain
from selectivbench.machine import used
from selectivbench.record import CHECKS, Record
from selectivbench.store import TIMINGS

GUARDED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"cpu": ("namespaces",), "cuda": ("landlock", "namespaces")}
)
"""Isolation that the mark asks for; on CUDA namespaces are not asked for."""
LARGEST_SOURCE = 2**20
AUDIT = "audit.json"
"""What an audit leaves beside its records, whose seeds give the salt's secret away."""


@dataclass(frozen=True)
class Added:
    """Stems that were copied, that were there already, what was refused; timings that were copied."""

    new: tuple[str, ...]
    same: tuple[str, ...]
    refused: tuple[Refusal, ...]
    timings: tuple[str, ...] = ()


def add(paths: Iterable[Path], results: Path, verified: bool = False) -> Added:
    """Check records (files or folders) and copy them with sources; a bad one stops no other.

    verified: set the mark. Only the scoring workflow may ask for it: its records come from a
    trusted runner and a cold cache. Without it a record keeps the mark that it has.
    """
    places = tuple(paths)
    new: list[str] = []
    same: list[str] = []
    refused: list[Refusal] = []
    for path in _records(places):
        try:
            stem, copied = _add(path, results, verified)
            (new if copied else same).append(stem)
        except (RecordError, OSError, UnicodeDecodeError) as error:
            refused.append(Refusal(str(path), str(error)[:500]))
    timings, bad = _add_timings(places, results)
    return Added(tuple(new), tuple(same), (*refused, *bad), timings)


def _add_timings(
    places: Iterable[Path], results: Path
) -> tuple[tuple[str, ...], tuple[Refusal, ...]]:
    """Copy what was timed beside records; the newer one of a name stays."""
    new, refused = [], []
    for path in (path for place in places for path in _timings(place)):
        try:
            timing, target = read_timing(path), results / TIMINGS / path.name
            if target.exists() and read_timing(target).created >= timing.created:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy(path, target)
            new.append(path.stem)
        except (RecordError, OSError, UnicodeDecodeError) as error:
            refused.append(Refusal(str(path), str(error)[:500]))
    return tuple(new), tuple(refused)


def _timings(place: Path) -> list[Path]:
    """The timing files of a folder of records, or a single one."""
    if place.is_dir():
        return sorted((place / TIMINGS).glob("*.json"))
    return [place] if place.parent.name == TIMINGS else []


def _records(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        _refuse_audits(path)
        if path.is_file() and path.parent.name == TIMINGS:
            continue
        if path.is_dir():
            yield from record_files(path)
        elif path.exists():
            yield path
        else:
            raise UsageError(explain("record", str(path), "an existing file or folder"))


def _refuse_audits(path: Path) -> None:
    """UsageError for a record beside an audit, and for a folder with an audit anywhere below it."""
    inside = path.rglob(AUDIT) if path.is_dir() else (path.with_name(AUDIT),)
    for found in inside:
        if found.is_file() and found.parent.name != AUDITS:
            remedy = "give --audit FILE: it takes in the gaps and keeps the seeds secret"
            got = f"the audit's own folder {found.parent}"
            raise UsageError(explain("records", got, "public ones", remedy))


def _add(path: Path, results: Path, verified: bool) -> tuple[str, bool]:
    case = read(path)
    if verified:
        _deserves_the_mark(case.record)
        case = replace(case, record=replace(case.record, verified=True))
    sha = case.record.identity.source_sha256
    source = _source(path, sha, results)
    target = results / path.name
    if target.exists():
        return path.stem, _newer(case, target) and _write(case, target)
    (results / SOURCES).mkdir(parents=True, exist_ok=True)
    if source.parent != results / SOURCES:
        _copy(source, results / SOURCES / source.name)
    return path.stem, _write(case, target)


def _deserves_the_mark(record: Record) -> None:
    """RecordError where it was made with too little isolation, or without every validity check.

    A check that does not hold is no obstacle: the result is invalid, and the mark says who found it.
    """
    device, _ = used(record.identity.device_class)
    guarded = GUARDED[device.kind]
    if record.isolation not in guarded:
        allowed = f"{' or '.join(guarded)} for the verified mark"
        remedy = "score it on a machine that has it, or add it without the mark"
        raise RecordError(explain("isolation", record.isolation, allowed, remedy))
    missing = sorted(set(CHECKS) - {finding.check for finding in record.validity})
    if missing and record.score is not None:
        got = f"none of {', '.join(missing)}"
        raise RecordError(explain("validity checks", got, "all", "--selectiv-validity=yes"))


def _newer(case: Case, target: Path) -> bool:
    """Whether a record replaces the one of the same identity: verified before not, then by date."""
    old = read(target)
    if (old.moment, old.whole()) == (case.moment, case.whole()):
        return False
    if (case.record.verified, case.moment) < (old.record.verified, old.moment):
        raise RecordError(f"{target.name} is there already, and it is verified or newer; keep it.")
    return True


def _source(path: Path, sha: str, results: Path) -> Path:
    """The stored source with that sha: beside the record, or in the results already."""
    for folder in (path.parent / SOURCES, path.parent.parent / SOURCES, results / SOURCES):
        source = folder / f"{sha}.py"
        if source.is_file() and not source.is_symlink():
            size = source.stat().st_size
            if size > LARGEST_SOURCE:
                raise RecordError(explain("source size", size, f"{LARGEST_SOURCE} bytes or less"))
            got = hashlib.sha256(source.read_bytes()).hexdigest()
            if got != sha:
                raise RecordError(explain(f"sha256 of {source.name}", got, sha, "re-run the case"))
            return source
    raise RecordError(
        explain(f"source {sha[:12]}….py", "none", f"a file in {SOURCES}/ beside the record",
                "re-run the case, or put the submission there under its sha256")
    )  # fmt: skip


def _write(case: Case, target: Path) -> bool:
    """The whole record; the same bytes as the file's unless the mark was set."""
    whole = case.whole()
    part = target.with_name(target.name + ".part")
    part.write_text(whole.to_json(), encoding="utf-8")
    part.replace(target)
    return True


def _copy(source: Path, target: Path) -> bool:
    part = target.with_name(target.name + ".part")
    shutil.copyfile(source, part)
    part.replace(target)
    return True
