"""What a sweep was when it was first run, and what its file says otherwise now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from selectivbench.errors import UsageError, explain
from selectivbench.submission import load
from selectivbench.sweep.file import Sweep


def described(sweep: Sweep) -> dict[str, Any]:
    """Everything that decides the cells, as JSON. How one of them is chosen is not part of it."""
    ranges = sweep.draws.ranges if sweep.draws else {}
    return {
        "task": sweep.task,
        "profile": sweep.profile,
        "seeds": list(sweep.seeds),
        "save": sweep.save,
        "reuse": sweep.reuse.stem if sweep.reuse else None,
        "fixed": dict(sweep.fixed),
        "submission": {stem: dict(table) for stem, table in sweep.of_submission.items()},
        "grid": {axis: list(values) for axis, values in sweep.grid.items()},
        "random": {axis: str(span) for axis, span in ranges.items()}
        | ({"draws": sweep.draws.count, "seed": sweep.draws.seed} if sweep.draws else {}),
        "source": {path.stem: load(path).sha256[:12] for path in sweep.submissions},
    }


def refuse_changes(sweep: Sweep, before: Mapping[str, Any]) -> None:
    """UsageError that says what differs, where anything does."""
    found = list(_differences(before, described(sweep)))
    if found:
        got = "; ".join(found)
        remedy = "or --changed to run what it says now: cells that are in both keep their records"
        raise UsageError(explain(f"{sweep.path.name}, changed", got, "the file as it was", remedy))


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from (f"{name} {line}" for line in _differences(old, new))
        elif old != new:
            yield f"{name}: {new} instead of {old}"
