"""Old records under today's bars: the verdict is judged anew, the figures stay."""

from __future__ import annotations

from pathlib import Path

from selectivbench.errors import RecordError, UsageError, explain
from selectivbench.record import Record
from selectivbench.store import RecordStore
from selectivbench.thresholds import judge


def rescore(folder: Path) -> str:
    """Judge every record of a folder by the bars of this version, and write those that changed.

    Needs no torch. Unreadable files are left alone and named.
    """
    if not folder.is_dir():
        raise UsageError(explain("records folder", str(folder), "an existing folder"))
    store = RecordStore(folder)
    lines, same = [], 0
    for path in sorted(folder.glob("*-v*-*.json")):
        try:
            changed = _rescored(path, store)
        except (RecordError, UnicodeDecodeError) as error:
            lines.append(f"{path.name}: left alone, {error}")
            continue
        lines += [changed] if changed else []
        same += not changed
    return "\n".join([*lines, f"{same} as before"])


def _rescored(path: Path, store: RecordStore) -> str:
    """What became of one record; nothing where it is as before."""
    if _is_judged(_read(path)):
        return ""
    with store.lock(_read(path).identity.key):
        old = _read(path)  # again: whoever held the lock may have written a newer one
        if _is_judged(old):
            return ""
        new = store.write(judge(old))
    change = f"{old.status} to {new.status}" if old.status != new.status else new.status
    return f"{old.identity.stem}: {change}, {new.cause or f'score {new.score:.3f}'}"


def _read(path: Path) -> Record:
    return Record.from_json(path.read_text(encoding="utf-8"))


def _is_judged(record: Record) -> bool:
    new = judge(record)
    return (new.status, new.cause) == (record.status, record.cause)
