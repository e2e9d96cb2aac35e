"""Measured training steps, and what they say of sizes that were not measured."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from selectivbench.custom import Training
from selectivbench.dialogue import pace
from selectivbench.errors import UsageError, explain
from selectivbench.job import Job
from selectivbench.machine import describe, resolve
from selectivbench.runner import order_of
from selectivbench.sandbox import levels
from selectivbench.sandbox.controller import Child, opened
from selectivbench.sandbox.launch import Launcher
from selectivbench.sandbox.launchers import Launchers
from selectivbench.sweep.file import Sweep
from selectivbench.sweep.grid import Cell, cells
from selectivbench.sweep.load import tokens_of_step
from selectivbench.tasks.base import Dataset

COUNTED = 3
"""Steps whose mean is taken on a CPU, after a first one that loads kernels."""


@dataclass(frozen=True)
class Step:
    """One measured training step: seconds for so many tokens (steps of a sequence, all rows).

    On a CPU they are seconds that the processor was busy with it, so that a neighbour does not count.
    """

    submission: str
    task: str
    width: int
    layers: int
    tokens: int
    seconds: float
    parameters: int
    device: str
    processor: str


def measure(sweep: Sweep, widths: Sequence[int], batch_size: int, device: str) -> Iterator[Step]:
    """A step of every submission at each width, in the sweep's own task and stack, as they come."""
    kind = resolve(device).kind
    launchers = Launchers(kind, levels.resolve("0" if kind == "cpu" else "1"))
    try:
        for cell in _first_of_each(cells(sweep)):
            for width in widths:
                yield _measured(_smaller(cell, width, batch_size), device, launchers)
    finally:
        launchers.close()


def add(path: Path, steps: Sequence[Step]) -> None:
    """Into a file, in place of what it said of the same submissions, tasks and widths."""
    new = {_at(step) for step in steps}
    kept = [step for step in read(path) if _at(step) not in new] if path.is_file() else []
    write(path, sorted([*kept, *steps], key=_at))


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
        """The least-squares law with no negative part; through one width, the square alone.

        >>> Law.through([2, 4], [8, 24])
        Law(linear=2.0, square=1.0)
        """
        w, y = np.asarray(widths, dtype=float), np.asarray(values, dtype=float)
        both = np.stack([w, w**2], axis=1)
        if len(set(widths)) > 1:
            linear, square = np.linalg.lstsq(both / y[:, None], np.ones(len(y)), rcond=None)[0]
            if linear >= 0 and square >= 0:
                return cls(round(float(linear), 15), round(float(square), 15))
            if square < 0:
                return cls(float(np.mean(y / w)), 0.0)
        return cls(0.0, float(np.mean(y / w**2)))

    def at(self, width: int) -> float:
        """Its value at a width."""
        return self.linear * width + self.square * width**2


@dataclass(frozen=True)
class Laws:
    """Of one submission: seconds a token and block on the measured device, parameters a block."""

    seconds: Law
    parameters: Law


def laws(steps: Iterable[Step]) -> dict[tuple[str, str], Laws]:
    """One for each submission and training task that was measured."""
    found: dict[tuple[str, str], list[Step]] = defaultdict(list)
    for step in steps:
        found[step.submission, step.task].append(step)
    return {at: _laws(measured) for at, measured in found.items()}


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


def _at(step: Step) -> tuple[str, str, int]:
    return step.submission, step.task, step.width


def _smaller(cell: Cell, width: int, batch_size: int) -> Training:
    sizes = {**cell.sizes, "width": width, "batch_size": batch_size, "steps": 8, "warmup": 1}
    return Training(cell.submission, cell.task, cell.variant, cell.profile, cell.seed, sizes)


def _measured(training: Training, device: str, launchers: Launchers) -> Step:
    job = training.job(resolve(device))
    data = job.dataset(job.tasks[0])
    seconds, parameters = _step(job, data, launchers.of(job.submission.imports))
    return Step(
        submission=job.submission.id,
        task=job.tasks[0].name,
        width=job.plan.model.d_model,
        layers=job.plan.model.n_layers,
        tokens=tokens_of_step(data, job.plan.budget.batch_size),
        seconds=round(seconds, 6),
        parameters=parameters,
        device=job.device.name,
        processor=str(describe()["processor"]),
    )


def _step(job: Job, data: Dataset, launcher: Launcher) -> tuple[float, int]:
    """Seconds and parameters: by the clock on a GPU, by this process's busy seconds on a CPU."""
    with opened(launcher, order_of(job, {job.tasks[0]: data})) as child:
        if job.device.kind != "cpu":
            return pace(child, data, job.plan, job.seed)["step"], child.built.parameters
        child.enter("pace", job.plan.budget.deadline)
        _train(child, data, job.plan.budget.batch_size, 1)
        began = time.process_time()
        _train(child, data, job.plan.budget.batch_size, COUNTED)
        return (time.process_time() - began) / COUNTED, child.built.parameters


def _train(child: Child, data: Dataset, size: int, steps: int) -> None:
    for start in range(0, steps * size, size):
        child.train(data.batch("train", range(start, start + size)))
    child.report()
    child.progress()
