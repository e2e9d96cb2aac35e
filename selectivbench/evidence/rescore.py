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
            old = Record.from_json(path.read_text(encoding="utf-8"))
        except (RecordError, UnicodeDecodeError) as error:
            lines.append(f"{path.name}: left alone, {error}")
            continue
        new = judge(old)
        if (new.status, new.cause) == (old.status, old.cause):
            same += 1
            continue
        with store.lock(old.identity.key):
            store.write(new)
        change = f"{old.status} to {new.status}" if old.status != new.status else new.status
        lines.append(f"{old.identity.stem}: {change}, {new.cause or f'score {new.score:.3f}'}")
    return "\n".join([*lines, f"{same} as before"])
