"""Sweeps on paper: how many cells, device-hours, and the wall-clock on more and more GPUs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from selectivbench.sweep import file
from selectivbench.sweep.estimate import Gpu, Measured, seconds_of
from selectivbench.sweep.file import Sweep
from selectivbench.sweep.grid import count
from selectivbench.sweep.laws import Laws, laws
from selectivbench.sweep.runs import Ground, Run, runs
from selectivbench.sweep.simulate import Machines, Simulation, simulate
from selectivbench.sweep.storage import Stored, stored
from selectivbench.sweep.tables import aligned
from selectivbench.sweep.timing import read

WORKER_LOSS, NODE_LOSS = 1e-3, 1e-4
"""Chances a cell: about one lost worker in a thousand cells, one node in ten thousand."""


@dataclass(frozen=True)
class Question:
    """steps: a file of measured ones. slots: devices to plan for. gpu: None for the measured device."""

    paths: tuple[Path, ...]
    steps: Path
    slots: tuple[int, ...] = (8, 64, 512)
    gpu: Gpu | None = None


def plan(question: Question) -> str:
    """Cells and hours of each sweep, then the simulated wall-clock of all of them together."""
    measured = read(question.steps)
    device = question.gpu or Measured()
    found = laws(measured)
    seconds: list[float] = []
    rows: list[tuple[str, ...]] = [("sweep", "cells", "device-hours", "longest cell")]
    kept = Stored(0, 0, 0, 0, 0, 0)
    for path in question.paths:
        sweep = file.read(path)
        own = cell_seconds(sweep, device, found)
        kept += stored(_runs(sweep), found, sweep.save)
        rows.append(_row(sweep.name, own))
        seconds += own
    if len(question.paths) > 1:
        rows.append(_row("together", seconds))
    source = _source(question, sorted({f"{step.device}, {step.processor}" for step in measured}))
    walls = _walls(seconds, question.slots)
    return "\n\n".join([source, aligned(rows), aligned(walls), f"on the disk: {kept}"])


def dry_run(sweep: Sweep, steps: Path | None) -> str:
    """The number of cells, and device-hours where steps were measured."""
    line = f"{sweep.name}: {count(sweep):,} runs"
    if steps is None or not steps.is_file():
        return f"{line}; no step times in {steps}: `selectivbench sweep measure` makes them"
    measured = read(steps)
    hours = sum(cell_seconds(sweep, Measured(), laws(measured))) / 3600
    where = ", ".join(sorted({f"{step.device} ({step.processor})" for step in measured}))
    return f"{line}, {hours:,.0f} device-hours by the steps measured on {where}, one core a cell"


def cell_seconds(
    sweep: Sweep, device: Gpu | Measured, found: Mapping[tuple[str, str], Laws]
) -> list[float]:
    """Estimated seconds of every cell."""
    return list(seconds_of(_runs(sweep), device, found))


def _runs(sweep: Sweep) -> Iterator[Run]:
    """The work of every cell, wherever its folder may be."""
    ground = Ground(Path("."), Path(".") if sweep.reuse else None)
    return (run for _, run in runs(sweep, ground))


def _row(name: str, seconds: Sequence[float]) -> tuple[str, ...]:
    longest = f"{max(seconds) / 3600:.2f} h"
    return name, f"{len(seconds):,}", f"{sum(seconds) / 3600:,.0f}", longest


def _walls(seconds: Sequence[float], slots: Sequence[int]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        ("devices", "wall-clock", "use", "lost and run again", "driver a cell")
    ]
    for count_of in slots:
        machines = Machines(count_of, worker_loss=WORKER_LOSS, node_loss=NODE_LOSS)
        with tempfile.TemporaryDirectory() as folder:
            rows.append(_wall(simulate(seconds, machines, Path(folder))))
    return rows


def _wall(done: Simulation) -> tuple[str, ...]:
    hours = f"{done.hours:,.1f} h" if done.hours < 100 else f"{done.hours / 24:,.1f} days"
    lost = f"{done.tally.lost:,}"
    return str(done.machines.slots), hours, f"{done.use:.0%}", lost, f"{done.driver_ms:.2f} ms"


def _source(question: Question, where: Sequence[str]) -> str:
    if question.gpu is None:
        return f"Steps measured on {'; '.join(where)}, scaled to each cell's sizes."
    gpu = question.gpu
    return (
        f"Assumed, not measured: {gpu.tflops:g} TFLOP/s sustained, no step below "
        f"{1000 * gpu.floor:g} ms. Parameters as built on {'; '.join(where)}."
    )
