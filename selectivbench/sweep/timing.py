"""Training steps that were measured, and their file. What they say of other sizes: laws.py."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from selectivbench.batch import Batch
from selectivbench.custom import Training
from selectivbench.errors import UsageError, explain
from selectivbench.job import Job
from selectivbench.machine import describe, resolve
from selectivbench.runner import order_of
from selectivbench.sandbox import levels
from selectivbench.sandbox.controller import Child, opened
from selectivbench.sandbox.launchers import Launchers
from selectivbench.sweep.file import Sweep
from selectivbench.sweep.grid import Cell, cells

COUNTED = 3
"""Steps whose mean is taken, after a first one that loads kernels."""
SHORTER = 4
"""So many times as many sequences, each so many times shorter, are measured too: as much work but for
what grows with the length, which is attention's."""


@dataclass(frozen=True)
class Step:
    """One measured training step: seconds for so many tokens in sequences of a length.

    On a CPU they are seconds that the processor was busy with it, so that a neighbour does not count.
    state: floats that a block carries from step to step at that length, 0 where it does not say.
    """

    submission: str
    task: str
    width: int
    layers: int
    tokens: int
    length: int
    seconds: float
    parameters: int
    state: int
    device: str
    processor: str


def measure(sweep: Sweep, widths: Sequence[int], batch_size: int, device: str) -> Iterator[Step]:
    """Steps of every submission at each width and two lengths, in the sweep's own task and stack."""
    kind = resolve(device).kind
    launchers = Launchers(kind, levels.resolve("0" if kind == "cpu" else "1"))
    try:
        for cell in _first_of_each(cells(sweep)):
            for width in widths:
                yield from _measured(_smaller(cell, width, batch_size), device, launchers)
    finally:
        launchers.close()


def add(path: Path, steps: Sequence[Step]) -> None:
    """Into a file, in place of what it said of the same submissions, tasks and sizes."""
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


def _first_of_each(found: Iterable[Cell]) -> list[Cell]:
    first: dict[Path, Cell] = {}
    for cell in found:
        first.setdefault(cell.submission, cell)
    return list(first.values())


def _at(step: Step) -> tuple[str, str, int, int]:
    return step.submission, step.task, step.width, step.length


def _smaller(cell: Cell, width: int, batch_size: int) -> Training:
    sizes = {**cell.sizes, "width": width, "batch_size": batch_size, "steps": 8, "warmup": 1}
    return Training(cell.submission, cell.task, cell.variant, cell.profile, cell.seed, sizes)


def _measured(training: Training, device: str, launchers: Launchers) -> Iterator[Step]:
    job = training.job(resolve(device))
    data, size = job.dataset(job.tasks[0]), job.plan.budget.batch_size
    whole = data.batch("train", range(size))
    shorter = _ends(data.batch("train", range(size * SHORTER)), whole.tokens.shape[1] // SHORTER)
    for batch in (whole, shorter):
        order = replace(order_of(job, {job.tasks[0]: data}), max_length=batch.tokens.shape[1])
        with opened(launchers.of(job.submission.imports), order) as child:
            child.enter("pace", job.plan.budget.deadline)
            yield _step(job, child, batch)


def _step(job: Job, child: Child, batch: Batch) -> Step:
    clock = time.process_time if job.device.kind == "cpu" else time.monotonic
    return Step(
        submission=job.submission.id,
        task=job.tasks[0].name,
        width=job.plan.model.d_model,
        layers=job.plan.model.n_layers,
        tokens=batch.tokens.size,
        length=batch.tokens.shape[1],
        seconds=round(_seconds(child, batch, clock), 6),
        parameters=child.built.parameters,
        state=child.built.state_size or 0,
        device=job.device.name,
        processor=str(describe()["processor"]),
    )


def _ends(batch: Batch, length: int) -> Batch:
    """The last steps of each sequence, where its targets are."""
    return Batch(
        np.ascontiguousarray(batch.tokens[:, -length:]),
        np.ascontiguousarray(batch.targets[:, -length:]),
        np.ascontiguousarray(batch.element[:, -length:]),
        batch.noise_seeds,
    )


def _seconds(child: Child, batch: Batch, clock: Callable[[], float]) -> float:
    """Of one training step, by a clock."""
    _train(child, batch, 1)
    began = clock()
    _train(child, batch, COUNTED)
    return (clock() - began) / COUNTED


def _train(child: Child, batch: Batch, steps: int) -> None:
    for _ in range(steps):
        child.train(batch)
    child.report()
    child.progress()
