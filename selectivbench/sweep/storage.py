"""What a sweep leaves on the disk: records with their curves, a log, trained models, checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from selectivbench.dialogue import REPORTS
from selectivbench.sweep.estimate import laws_of
from selectivbench.sweep.laws import Laws
from selectivbench.sweep.load import Load, Loads, plan_of
from selectivbench.sweep.runs import Run

RECORD, POINT, LINE = 3_500, 85, 130
"""Bytes of a record without its curve, of one point of the curve, of a line of the log."""
NUMBER = 4
"""Bytes of one number of a trained model; a checkpoint holds the model and Adam's two moments."""


@dataclass(frozen=True)
class Stored:
    """Bytes. ``checkpoint``: of the largest cell, while it runs."""

    cells: int
    records: int
    curves: int
    log: int
    models: int
    checkpoint: int

    def __str__(self) -> str:
        kept = f", trained models {_bytes(self.models)}" if self.models else ""
        return (
            f"{self.cells:,} records {_bytes(self.records)}, of which curves "
            f"{_bytes(self.curves)}; log {_bytes(self.log)}{kept}; checkpoint of a running cell up "
            f"to {_bytes(self.checkpoint)}"
        )

    def __add__(self, other: Stored) -> Stored:
        return Stored(
            self.cells + other.cells,
            self.records + other.records,
            self.curves + other.curves,
            self.log + other.log,
            self.models + other.models,
            max(self.checkpoint, other.checkpoint),
        )


def stored(runs: Iterable[Run], laws: Mapping[tuple[str, str], Laws], save: bool) -> Stored:
    """Of all runs of a sweep; ``save``: it keeps its trained models."""
    loads = Loads()
    total = Stored(0, 0, 0, 0, 0, 0)
    for run in runs:
        numbers = _parameters(loads.of(run), laws_of(run, laws))
        curve = POINT * (REPORTS + plan_of(run.training).budget.validations)
        models = NUMBER * numbers if save else 0
        total += Stored(1, RECORD + curve, curve, LINE, models, 3 * NUMBER * numbers)
    return total


def _parameters(load: Load, laws: Laws) -> int:
    return int(laws.parameters.at(load.width) * load.layers)


def _bytes(count: float) -> str:
    """In a unit that leaves one to three digits before the point.

    >>> _bytes(1234), _bytes(5.6e9)
    ('1.2 kB', '5.6 GB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            break
        count /= 1000
    return f"{count:.1f} {unit}"
