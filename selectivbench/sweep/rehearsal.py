"""A real engine under cells that only sleep: throughput, and what each cell costs besides its sleep."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from selectivbench.errors import UsageError, explain
from selectivbench.seeds import Stream
from selectivbench.sweep.drive import Tally, drive
from selectivbench.sweep.engines import Wish, opened
from selectivbench.sweep.folder import Folder
from selectivbench.sweep.naps import Nap

SPREAD = 1.0
"""Of the sleeps, on a log scale: a tenth of the cells takes three times the median or more."""


@dataclass(frozen=True)
class Rehearsal:
    """What came out of one."""

    cells: int
    slots: int
    slept: float
    """Seconds of all sleeps together, deaths not counted."""
    wall: float
    tally: Tally

    def __str__(self) -> str:
        overhead = 1000 * max(0.0, self.wall - self.slept / self.slots) / self.cells
        return (
            f"{self.cells:,} cells on {self.slots} workers in {self.wall:.1f} s: "
            f"{self.cells / self.wall:.0f} a second, {overhead:.1f} ms a cell besides its sleep; "
            f"{self.tally.done:,} records, {self.tally.lost:,} workers died"
        )


def rehearse(wish: Wish, cells: int, seconds: float, deaths: float, seed: int = 1) -> Rehearsal:
    """Sleep ``cells`` times, ``seconds`` at the median; ``deaths``: share whose worker dies once.

    The driver, the engine, the folder and its records are those of a real sweep.
    """
    if wish.workers is None:
        raise UsageError(explain("workers", None, "a number", "pass --workers 8"))
    naps = _naps(cells, seconds, deaths, seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Folder(Path(name) / "sweep")
        folder.prepare({"rehearsal": cells})
        with opened(wish, folder.root) as engine:
            first = [Nap(cells + i, 0.0) for i in range(4 * wish.workers)]
            drive(iter(first), engine, folder)  # workers start
            began = time.monotonic()
            tally = drive(iter(naps), engine, folder)
            wall = time.monotonic() - began
    return Rehearsal(cells, wish.workers, sum(nap.seconds for nap in naps), wall, tally)


def _naps(cells: int, seconds: float, deaths: float, seed: int) -> Sequence[Nap]:
    rng = Stream.named("rehearsal", seed).rng()
    sleeps = seconds * np.exp(SPREAD * rng.standard_normal(cells))
    dies = rng.random(cells) < deaths
    return [Nap(i, float(sleeps[i]), int(dies[i])) for i in range(cells)]
