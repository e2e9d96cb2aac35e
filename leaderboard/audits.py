"""Audits beside the records, in ``audits/``: read, and taken in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from leaderboard.plain import read_plain
from selectivbench.audited import Audited, Gap
from selectivbench.errors import RecordError, UsageError, explain

AUDITS = "audits"
LARGEST_FILE = 4 * 2**20

Question = tuple[str, ...]
"""What a gap is about: file, task, variant, profile, device class, budget."""


def read_audit(path: Path) -> Audited:
    """One audit file; RecordError says why it cannot be used."""
    return Audited.from_json(read_plain(path, "audit", LARGEST_FILE).decode("utf-8"))


def take_in(path: Path, results: Path) -> int:
    """Copy an audit into the results, beside what the same salt gave before; how many gaps it has."""
    try:
        new = read_audit(path)
    except (RecordError, OSError, UnicodeDecodeError) as error:
        allowed = "the audit.json of `selectivbench audit`"
        raise UsageError(explain("--audit", f"{path} ({error})", allowed)) from error
    target = results / AUDITS / f"{new.commitment[:24]}.json"
    old = read_audit(target) if target.exists() else new
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    part.write_text(old.with_gaps(new.gaps).to_json(), encoding="utf-8")
    part.replace(target)
    return len(new.gaps)


def worst(audits: Iterable[Audited]) -> Mapping[Question, Gap]:
    """The gap of each question; of several salts the one that speaks most against the entry."""
    found: dict[Question, Gap] = {}
    for gap in (gap for audit in audits for gap in audit.gaps):
        known = found.setdefault(gap.about, gap)
        if gap.gap - gap.allowed > known.gap - known.allowed:
            found[gap.about] = gap
    return found
