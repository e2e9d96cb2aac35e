"""Timings beside the records, in ``timings/``: read and checked."""

from __future__ import annotations

from pathlib import Path

from leaderboard.plain import read_plain
from leaderboard.validate import (
    DIGEST,
    LARGEST,
    NAME,
    SHA256,
    check_leaf,
    check_moment,
    clip,
    leaves,
    want,
)
from selectivbench.errors import RecordError, explain
from selectivbench.times import OWN, Timing
from selectivbench.yardsticks import NAMES

LARGEST_FILE = 2**20
LONGEST = 1 << 24
"""Steps of a sequence."""
MOST_ROUNDS = 1_000
SHORTEST = 1e-12
"""Seconds; a ratio to less would be no number that a chart can hold."""


def read_timing(path: Path) -> Timing:
    """One timing file, checked; RecordError says why it cannot be used."""
    timing = Timing.from_json(read_plain(path, "timing", LARGEST_FILE).decode("utf-8"))
    _check(timing)
    if path.stem != timing.stem:
        raise RecordError(explain("file name", clip(path.name), f"{timing.stem}.json"))
    return timing


def _check(timing: Timing) -> None:
    """Names can become links, and numbers places in a chart."""
    for field, pattern in (
        ("entry", NAME),
        ("profile", NAME),
        ("device_class", NAME),
        ("isolation", NAME),
        ("source_sha256", SHA256),
        ("key", DIGEST),
    ):
        value = getattr(timing, field)
        want(bool(pattern.fullmatch(value)), f"timing {field}", value, pattern.pattern)
    want(0 < timing.length <= LONGEST, "length", timing.length, f"1 to {LONGEST}")
    want(0 < timing.batch <= LONGEST, "batch", timing.batch, f"1 to {LONGEST}")
    known = {OWN, *NAMES}
    want(set(timing.layers) <= known, "layers", list(timing.layers), ", ".join(sorted(known)))
    want(len(timing.own.busy) <= MOST_ROUNDS, "rounds", len(timing.own.busy), f"{MOST_ROUNDS}")
    for name in ("environment", "machine"):
        for path, value in leaves(name, getattr(timing, name)):
            check_leaf(path, value)
    check_moment(timing.created)
    _sizes(timing)


def _sizes(timing: Timing) -> None:
    sizes = [timing.declared_state]
    for measured in timing.layers.values():
        sizes += [measured.memory, measured.state_bytes, measured.repeats]
        quickest, slowest = (of((*measured.seconds, *measured.busy)) for of in (min, max))
        want(slowest <= LARGEST, "seconds", slowest, f"{LARGEST:g} or less")
        want(quickest >= SHORTEST, "seconds", quickest, f"{SHORTEST:g} or more")
    for size in sizes:
        want(size is None or 0 <= size <= LARGEST, "timing", size, f"0 to {LARGEST:g}, or null")
