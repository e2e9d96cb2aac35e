"""Reads back what events.py writes, also while it is written."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from selectivbench.record import Point
from selectivbench.tracking.events import ENDING

State: TypeAlias = Literal["running", "over", "stopped"]


@dataclass(frozen=True)
class Followed:
    """The last run of one training, as its events tell it."""

    name: str
    """Entry and training: ``lstm selective_copy-v1[seed1]``."""
    steps: int
    began: float
    """Seconds since 1970, as all times here."""
    latest: float
    """When the last event was written."""
    points: tuple[Point, ...]
    trained_until: float
    """When the last point was written; when it began, where there is none yet."""
    statuses: tuple[str, ...]
    """One for each record."""
    state: State
    """``stopped``: its process ended without a word."""


def read(folder: Path) -> list[Followed]:
    """The last run of each training that has events in a folder; what is no event is passed over."""
    runs = (_followed(path) for path in sorted(folder.glob(f"*{ENDING}")))
    return [run for run in runs if run is not None]


def _followed(path: Path) -> Followed | None:
    try:
        with path.open("rb") as file:
            held = _is_held(file.fileno())
            events = list(_events(file.read().decode(errors="replace")))
    except OSError:
        return None  # gone, or not ours to read
    begun = [number for number, event in enumerate(events) if event["event"] == "started"]
    try:
        return _run(events[begun[-1] :], held) if begun else None
    except (KeyError, TypeError, ValueError):
        return None  # written by something else


def _run(events: list[dict[str, Any]], held: bool) -> Followed:
    first, last = events[0], events[-1]
    points = [event for event in events if event["event"] == "point"]
    variant = "" if first["variant"] == "base" else f"{first['variant']}-"
    over = last["event"] == "ended"
    return Followed(
        name=f"{first['entry']} {first['task']}[{variant}seed{first['seed']}]",
        steps=int(first["steps"]),
        began=float(first["time"]),
        latest=float(last["time"]),
        points=tuple(Point(int(p["step"]), float(p["loss"]), _figure(p)) for p in points),
        trained_until=float(points[-1]["time"] if points else first["time"]),
        statuses=tuple(str(event["status"]) for event in events if event["event"] == "done"),
        state="over" if over else "running" if held else "stopped",
    )


def _figure(point: dict[str, Any]) -> float | None:
    return None if point["accuracy"] is None else float(point["accuracy"])


def _events(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue  # torn: its writer was killed, or the disk was full
        if isinstance(event, dict) and "event" in event and "time" in event:
            yield event


def _is_held(descriptor: int) -> bool:
    """Whether the writer of a file lives."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False
