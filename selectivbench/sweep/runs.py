"""A cell as work: one training (``selectivbench train``), or one look at a trained model."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from selectivbench.custom import Place, Training, run_training
from selectivbench.errors import UsageError
from selectivbench.machine import resolve
from selectivbench.record import digest
from selectivbench.sandbox import levels
from selectivbench.sandbox.launchers import Launchers
from selectivbench.sweep.file import Sweep
from selectivbench.sweep.grid import Cell, cells

TRAINED = "trained"
"""In a sweep's folder, where trained models are kept: their models, and the records of their own."""


@dataclass(frozen=True)
class Run:
    """One cell, ready to be carried elsewhere.

    kept: a folder whose trained models are added to, or (``from_saved``) evaluated; without one, all
    that is left of a run is its record.
    """

    training: Training
    evaluation: str | None = None
    kept: str | None = None
    from_saved: bool = False
    device: str = "auto"
    isolate: str = "1"

    @property
    def key(self) -> str:
        """The training's key; with the test split where the cell stands for one."""
        if self.evaluation is None:
            return self.training.key
        return digest({"training": self.training.key, "evaluation": self.evaluation})

    def run(self, scratch: Path) -> str:
        """Train, or go on where a dead worker had come to; the text of the record."""
        out = scratch if self.kept is None else Path(self.kept)
        save = self.kept is not None and not self.from_saved
        place = Place(out, self.device, self.isolate, save, self.from_saved)
        launchers = _launchers(resolve(self.device).kind, self.isolate)
        return run_training(self.training, place, launchers=launchers).to_json()


@cache
def _launchers(kind: str, isolate: str) -> Launchers:
    """Of this process: importing torch takes seconds, so its cells share what is started once."""
    launchers = Launchers(kind, levels.resolve(isolate))
    atexit.register(launchers.close)
    return launchers


@dataclass(frozen=True)
class Ground:
    """Where the cells of a sweep stand: its folder, that of the sweep it reuses, device, isolation."""

    root: Path
    reused: Path | None = None
    device: str = "auto"
    isolate: str = "1"


def run_of(cell: Cell, sweep: Sweep, ground: Ground) -> Run:
    """The work of one cell; UsageError, with the cell, where its sizes do not go together."""
    kept = ground.reused or (ground.root if sweep.save else None)
    try:
        training = Training(
            cell.submission, cell.task, cell.variant, cell.profile, cell.seed, dict(cell.sizes)
        )
    except UsageError as error:
        raise UsageError(f"{cell}: {error}") from error
    return Run(
        training=training,
        evaluation=cell.evaluation,
        kept=str((kept / TRAINED).absolute()) if kept else None,
        from_saved=ground.reused is not None,
        device=ground.device,
        isolate=ground.isolate,
    )


def runs(sweep: Sweep, ground: Ground) -> Iterator[tuple[Cell, Run]]:
    """Every cell with its work, one at a time."""
    return ((cell, run_of(cell, sweep, ground)) for cell in cells(sweep))
