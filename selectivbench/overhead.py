"""What the harness costs beside a loop written by hand: ``selectivbench overhead mine.py``.

Both train the same model on the same batches and predict the same sets, in turns, and CPU seconds
are compared, which a busy neighbour leaves alone. The hand-written loop has its batches ready.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from selectivbench.checks import trained_state
from selectivbench.dialogue import evaluate, fit
from selectivbench.errors import UsageError, explain
from selectivbench.machine import Device
from selectivbench.profiles import get_profile
from selectivbench.runner import Job, order_of
from selectivbench.sandbox.controller import Child, opened
from selectivbench.sandbox.environment import environment
from selectivbench.sandbox.launch import Launcher
from selectivbench.sandbox.launchers import Launchers
from selectivbench.sandbox.levels import resolve
from selectivbench.submission import load
from selectivbench.tasks import get_task
from selectivbench.tracking import NullTracker

MOST_CHILD, MOST_WITH_DATA = 1.03, 1.05
"""What is promised: the child's CPU seconds, and with the controller's (data, metrics), over bare."""
LEAST_PAIRS = 7


@dataclass(frozen=True)
class Pair:
    """CPU seconds of one case, and of one bare loop right after it."""

    child: float
    controller: float
    bare: float


@dataclass(frozen=True)
class Comparison:
    """What to compare: a submission on a task, for so many steps, so often."""

    path: Path
    task: str = "noisy_gaps"
    profile: str = "lite"
    steps: int = 150
    pairs: int = LEAST_PAIRS

    def job(self) -> Job:
        """The case; UsageError where a name or number is none."""
        if self.pairs < 1:
            raise UsageError(explain("pairs", self.pairs, f"1 or more ({LEAST_PAIRS} to believe)"))
        task, profile = get_task(self.task), get_profile(self.profile)
        if not (variants := task.variants.get(profile.name, ())):
            raise UsageError(explain("profile", profile.name, f"one that {task.name} has"))
        profile.plan(task.name, self.steps)  # an impossible number of steps is said now
        device = Device("cpu", "cpu")
        return Job(load(self.path), (task,), variants[0], profile, 1, device, self.steps)


def table(wanted: Comparison) -> str:
    """The pairs and the two ratios as Markdown."""
    pairs = list(compare(wanted))
    lines = [
        f"{wanted.path.name} on {wanted.task}, {wanted.profile}, {wanted.steps} steps, one thread; "
        "CPU seconds",
        "",
        "| pair | child | controller | bare loop | child / bare | with data / bare |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for number, pair in enumerate(pairs, start=1):
        child, whole = ratios([pair])
        cells = (number, *(f"{s:.2f}" for s in (pair.child, pair.controller, pair.bare)))
        lines.append(f"| {' | '.join(map(str, cells))} | {child:.3f} | {whole:.3f} |")
    child, whole = ratios(pairs)
    lines += [
        "",
        f"child / bare: median {child:.3f}, promised {MOST_CHILD}",
        f"with data generation / bare: median {whole:.3f}, promised {MOST_WITH_DATA}",
    ]
    return "\n".join(lines)


def ratios(pairs: list[Pair]) -> tuple[float, float]:
    """Medians over pairs: the child's CPU seconds over bare, and the child's and controller's."""
    return (
        median(pair.child / pair.bare for pair in pairs),
        median((pair.child + pair.controller) / pair.bare for pair in pairs),
    )


def compare(wanted: Comparison) -> Iterator[Pair]:
    """The pairs, after one of each that is not counted."""
    job = wanted.job()
    launchers = Launchers("cpu", resolve("1"))
    try:
        launcher = launchers.of(job.submission.imports)
        with _bare(wanted) as bare:
            for number in range(wanted.pairs + 1):
                pair = Pair(*case(job, launcher), next(bare))
                if number:
                    yield pair
    finally:
        launchers.close()


def case(job: Job, launcher: Launcher) -> tuple[float, float]:
    """(child, controller) CPU seconds of a fit and its evaluation, as the runner does them.

    To the last step, whatever the profile says of an early end: the bare loop knows none.
    """
    began = time.process_time()
    task = job.tasks[0]
    data = job.dataset(task)
    order = order_of(job, {task: data})
    with opened(launcher, order) as first:
        fit(first, data, job.plan, job.seed, NullTracker())
        state = trained_state(first)
    with opened(launcher, order) as second:
        second.load(state)
        evaluate(second, data)
    return _cpu(first) + _cpu(second), time.process_time() - began


def _cpu(child: Child) -> float:
    assert child.exit is not None, "it was ended"
    assert child.exit.cpu is not None, "its warden said how long"
    return child.exit.cpu


@contextmanager
def _bare(wanted: Comparison) -> Iterator[Iterator[float]]:
    """CPU seconds of one bare loop after another, from a process that has its batches ready."""
    path = str(wanted.path.absolute())
    command = [sys.executable, "-m", "selectivbench.bare"]
    command += [path, wanted.task, wanted.profile, str(wanted.steps)]
    with subprocess.Popen(
        command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise UsageError(explain("bare loop", "no answer", "a submission that runs on a CPU"))

        def seconds() -> Iterator[float]:
            while True:
                process.stdin.write("run\n")  # type: ignore[union-attr]
                process.stdin.flush()  # type: ignore[union-attr]
                yield float(process.stdout.readline())  # type: ignore[union-attr]

        yield seconds()
        process.stdin.close()
