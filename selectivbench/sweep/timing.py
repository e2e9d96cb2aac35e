"""Measured training steps, and what they say of sizes that were not measured."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from selectivbench.custom import Training
from selectivbench.dialogue import pace
from selectivbench.errors import UsageError, explain
from selectivbench.machine import describe, resolve
from selectivbench.runner import order_of
from selectivbench.sandbox import levels
from selectivbench.sandbox.controller import opened
from selectivbench.sandbox.launchers import Launchers
from selectivbench.sweep.file import Sweep
from selectivbench.sweep.grid import Cell, cells
from selectivbench.sweep.load import tokens_of_step


@dataclass(frozen=True)
class Step:
    """One measured training step: seconds for so many tokens (steps of a sequence, all rows)."""

    submission: str
    width: int
    layers: int
    tokens: int
    seconds: float
    parameters: int
    device: str
    processor: str


def measure(sweep: Sweep, widths: Sequence[int], batch_size: int, device: str) -> list[Step]:
    """Six steps of every submission at each width, in the sweep's own task and stack."""
    known = resolve(device)
    launchers = Launchers(known.kind, levels.resolve("1"))
    try:
        return [
            _measured(_smaller(cell, width, batch_size), device, launchers)
            for cell in _first_of_each(cells(sweep))
            for width in widths
        ]
    finally:
        launchers.close()


def write(path: Path, steps: Iterable[Step]) -> None:
    """As JSON, one object a line."""
    lines = ",\n".join(json.dumps(asdict(step)) for step in steps)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def read(path: Path) -> list[Step]:
    """What ``write`` wrote; UsageError where it is something else."""
    try:
        return [Step(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        remedy = "`selectivbench sweep measure` writes one"
        raise UsageError(
            explain("step times", f"{path} ({error})", "a file of them", remedy)
        ) from error


@dataclass(frozen=True)
class Law:
    """A quantity of one block against its width: ``linear * width + square * width**2``."""

    linear: float
    square: float

    @classmethod
    def through(cls, widths: Sequence[int], values: Sequence[float]) -> Law:
        """The least-squares law with no negative part; through one point, the square alone.

        >>> Law.through([2, 4], [8, 24])
        Law(linear=2.0, square=1.0)
        """
        w, y = np.asarray(widths, dtype=float), np.asarray(values, dtype=float)
        both = np.stack([w, w**2], axis=1)
        if len(set(widths)) > 1:
            linear, square = np.linalg.lstsq(both / y[:, None], np.ones(len(y)), rcond=None)[0]
            if linear >= 0 and square >= 0:
                return cls(round(float(linear), 15), round(float(square), 15))
        return cls(0.0, float(np.mean(y / w**2)))

    def at(self, width: int) -> float:
        """Its value at a width."""
        return self.linear * width + self.square * width**2


@dataclass(frozen=True)
class Laws:
    """Of one submission: seconds a token and block on the measured device, parameters a block."""

    seconds: Law
    parameters: Law


def laws(steps: Iterable[Step]) -> dict[str, Laws]:
    """One for each submission that was measured."""
    of_submission: dict[str, list[Step]] = defaultdict(list)
    for step in steps:
        of_submission[step.submission].append(step)
    return {stem: _laws(found) for stem, found in of_submission.items()}


def _laws(steps: Sequence[Step]) -> Laws:
    widths = [step.width for step in steps]
    seconds = [step.seconds / step.tokens / step.layers for step in steps]
    parameters = [step.parameters / step.layers for step in steps]
    return Laws(Law.through(widths, seconds), Law.through(widths, parameters))


def _first_of_each(found: Iterable[Cell]) -> list[Cell]:
    first: dict[Path, Cell] = {}
    for cell in found:
        first.setdefault(cell.submission, cell)
    return list(first.values())


def _smaller(cell: Cell, width: int, batch_size: int) -> Training:
    sizes = {**cell.sizes, "width": width, "batch_size": batch_size, "steps": 8, "warmup": 1}
    return Training(cell.submission, cell.task, cell.variant, cell.profile, cell.seed, sizes)


def _measured(training: Training, device: str, launchers: Launchers) -> Step:
    job = training.job(resolve(device))
    data = {task: job.dataset(task) for task in job.tasks}
    trained = data[job.tasks[0]]
    with opened(launchers.of(job.submission.imports), order_of(job, data)) as child:
        seconds = pace(child, trained, job.plan, job.seed)["step"]
        parameters = child.built.parameters
    return Step(
        submission=job.submission.id,
        width=job.plan.model.d_model,
        layers=job.plan.model.n_layers,
        tokens=tokens_of_step(trained, job.plan.budget.batch_size),
        seconds=round(seconds, 6),
        parameters=parameters,
        device=job.device.name,
        processor=str(describe()["processor"]),
    )
