"""What pages show of timings: a table and a chart for an entry, and how the cost of all entries grows.

Busy seconds throughout: CPU seconds, or the time between two events on a GPU. The clock of a shared
machine tells of its other work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from leaderboard.charts import Axes, Line, Panel, panels
from leaderboard.figures import Chart
from leaderboard.rank import Standing
from selectivbench.growth import Growth, growths
from selectivbench.times import WHAT, Timing
from selectivbench.yardsticks import NAMES

COLUMNS = ("timed", "length", "batch", "busy_seconds", "tokens_per_busy_second",
           *(f"times_{name.lower()}" for name in NAMES),
           "peak_memory", "state_bytes_per_token")  # fmt: skip
TITLES = {"train": "training step", "forward": "forward pass", "decode": "decoded step"}


@dataclass(frozen=True)
class Speed:
    """One workload at one length, as a row.

    busy: seconds of one repeat, median over rounds. tokens: for each busy second. times: the layer's
    busy time over that of each yardstick. memory: bytes at the peak. state: bytes a token, of decoding.
    """

    what: str
    length: int
    batch: int
    busy: float
    tokens: float
    times: tuple[float | None, ...]
    memory: int | None
    state: float | None

    @classmethod
    def of(cls, timing: Timing) -> Speed:
        """What a timing comes to."""
        own = timing.own
        busy = median(own.busy)
        return cls(
            timing.what,
            timing.length,
            timing.batch,
            busy,
            timing.tokens / busy,
            tuple(timing.ratio(name) for name in NAMES),
            own.memory,
            None if own.state_bytes is None else own.state_bytes / timing.length,
        )

    @property
    def row(self) -> tuple[Any, ...]:
        """The columns of a chart's CSV."""
        seen = (self.what, self.length, self.batch, self.busy, self.tokens)
        return (*seen, *self.times, self.memory, self.state)


@dataclass(frozen=True)
class Timed:
    """What one standing shows of its timings."""

    standing: Standing
    speeds: tuple[Speed, ...]
    growths: tuple[Growth, ...]


def by_entry(timings: Iterable[Timing]) -> Mapping[str, Sequence[Timing]]:
    """Each entry's own, so that nobody looks through those of all others."""
    found: dict[str, list[Timing]] = {}
    for timing in timings:
        found.setdefault(timing.entry, []).append(timing)
    return found


def shown(standing: Standing, timings: Iterable[Timing]) -> tuple[Timing, ...]:
    """Those of a standing's own source, profile and device class: the newest of each workload."""
    about = (standing.entry.id, standing.source, standing.profile, standing.device)
    newest: dict[tuple[int, int], Timing] = {}
    for timing in sorted(timings, key=lambda t: (t.created, t.key)):
        if (timing.entry, timing.source_sha256, timing.profile, timing.device_class) == about:
            newest[WHAT.index(timing.what), timing.length] = timing
    return tuple(newest[place] for place in sorted(newest))


def timed(standing: Standing, timings: Iterable[Timing]) -> Timed | None:
    """A standing's table; None without a timing of its own."""
    own = shown(standing, timings)
    return Timed(standing, tuple(map(Speed.of, own)), growths(own)) if own else None


def of_entry(found: Timed) -> Chart | None:
    """The layer's time over that of both yardsticks, against length, a panel for each workload."""
    parts = [
        Panel(TITLES[what], lines, (("1", 1.0),))
        for what in WHAT
        if (lines := _against(found.speeds, what))
    ]
    if not parts:
        return None
    standing = found.standing
    own = f"{standing.profile}-{standing.device}"
    return Chart(
        f"speed-{own}",
        "Time over that of an LSTM and of attention",
        "of equal width, in the same run; solid: over the LSTM, dashed: over attention",
        f"charts/{standing.entry.id}-{own}-speed",
        panels("Time over that of an LSTM and of attention, by length", parts, _AXES),
        COLUMNS,
        tuple(speed.row for speed in found.speeds),
    )


_AXES = Axes("length", "times", log=True)


def _against(speeds: Sequence[Speed], what: str) -> tuple[Line, ...]:
    """A line for each yardstick that the workload was timed beside, over two lengths or more."""
    lines = []
    for place, name in enumerate(NAMES):
        rows = [(s.length, s.times[place]) for s in speeds if s.what == what]
        points = tuple((float(length), times) for length, times in rows if times is not None)
        if len(points) > 1:
            lines.append(Line(f"over {name}", points))
    return tuple(lines)


def page(standings: Sequence[Standing], timings: Sequence[Timing]) -> dict[str, Any]:
    """Context of the page of all timings: a part for each profile and device class."""
    own = by_entry(timings)
    found = [t for s in standings if (t := timed(s, own.get(s.entry.id, ()))) is not None]
    places = dict.fromkeys((t.standing.profile, t.standing.device) for t in found)
    parts = [
        _part([t for t in found if (t.standing.profile, t.standing.device) == place])
        for place in places
    ]
    used = sum(len(t.speeds) for t in found)
    return {"here": "timing", "parts": parts, "unused": len(timings) - used}


def _part(found: Sequence[Timed]) -> dict[str, Any]:
    standing = found[0].standing
    ordered = sorted(found, key=lambda t: t.standing.entry.id)
    rows = [
        {"entry": t.standing.entry, "growth": growth, "longest": _longest(t, growth.what)}
        for what in WHAT
        for t in ordered
        for growth in t.growths
        if growth.what == what
    ]
    chart = _overview(ordered)
    return {
        "profile": standing.profile,
        "device": standing.device,
        "rows": rows,
        "charts": [] if chart is None else [chart],
    }


def _longest(found: Timed, what: str) -> Speed:
    return max((s for s in found.speeds if s.what == what), key=lambda s: s.length)


def _overview(found: Sequence[Timed]) -> Chart | None:
    """Every entry's training step over the LSTM's, against length."""
    lines, rows = [], []
    for t in found:
        speeds = [(s, s.times[0]) for s in t.speeds if s.what == "train"]
        points = tuple((float(s.length), times) for s, times in speeds if times is not None)
        if len(points) > 1:
            lines.append(Line(t.standing.entry.name, points))
            rows += [(t.standing.entry.id, int(length), times) for length, times in points]
    if not lines:
        return None
    standing = found[0].standing
    where = f"{standing.profile}-{standing.device}"
    return Chart(
        f"speeds-{where}",
        "A training step over that of an LSTM of equal width",
        "in the same run; below 1 is faster",
        f"charts/speeds-{where}",
        panels("Training step over the LSTM's, by length", [Panel("", tuple(lines))], _AXES),
        ("entry", "length", "times_lstm"),
        tuple(rows),
    )
