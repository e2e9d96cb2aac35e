"""Synthetic timings for the site's tests. Nothing here was measured; nothing of it is committed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from selectivbench.store import TIMINGS
from selectivbench.times import Measured, Timing
from tests.leaderboard import made


def timing(
    entry: str = "lstm", what: str = "train", length: int = 64, busy: float = 0.01, **fields: Any
) -> Timing:
    """Three rounds of a layer that is twice as slow as an LSTM and a quarter of attention."""
    layers = {
        "own": Measured((9.0,) * 3, (busy, busy * 1.1, busy * 0.9), 1, 3 << 20, None),
        "LSTM": Measured((9.0,) * 3, (busy / 2, busy * 1.1 / 2, busy * 0.9 / 2), 1, 1 << 20, None),
        "attention": Measured((9.0,) * 3, (busy * 4, busy * 4.4, busy * 3.6), 1, 1 << 20, None),
    }
    given = {
        "source_sha256": made.sha(made.source_of(entry)),
        "profile": "lite",
        "device_class": "cpu",
        "batch": 8,
        "key": "ab" * 12,
        "layers": layers,
        "declared_state": 96,
        "isolation": "process",
        "created": "2026-03-02T10:00:00+00:00",
    }
    return Timing(entry=entry, what=what, length=length, **{**given, **fields})


def write(records: Path, timings: Iterable[Timing]) -> Path:
    """Timings beside records, as a run leaves them."""
    (records / TIMINGS).mkdir(parents=True, exist_ok=True)
    for one in timings:
        (records / TIMINGS / f"{one.stem}.json").write_text(one.to_json(), encoding="utf-8")
    return records


def grown(entry: str = "lstm", what: str = "train", power: float = 1.0) -> list[Timing]:
    """Batches of the same number of tokens, so that a linear layer takes the same time at each."""
    return [
        timing(entry, what, T, 0.01 * (T / 64) ** (power - 1), batch=512 // T)
        for T in (64, 128, 256)
    ]
