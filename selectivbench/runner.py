"""From a submission and a task to records: the whole chain, in one readable function (``run``)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType

import numpy as np

from selectivbench import machine, yardsticks
from selectivbench.checkpoints import UNKEPT, Progress
from selectivbench.checks import check_size, trained_state
from selectivbench.dialogue import evaluate, fit, pace
from selectivbench.errors import ChildError
from selectivbench.job import Job, order_of
from selectivbench.metrics import score
from selectivbench.record import Evaluation, Identity, Point, Record, Tracker
from selectivbench.sandbox.controller import PREDICT_DEADLINE, Child, opened
from selectivbench.sandbox.launch import Launcher
from selectivbench.sandbox.states import State
from selectivbench.saved import Saved
from selectivbench.tasks.base import Dataset, Task
from selectivbench.thresholds import conforming, judge
from selectivbench.utilisation import Gauge, gauge

__all__ = ["Fit", "Job", "Keep", "Look", "order_of", "run", "run_saved"]

Fit = Callable[[], tuple[Point, ...]]
Keep = Callable[[Identity, Saved], object]
"""Takes the model of a training, by the identity of its record."""
Look = Callable[[Identity, State], object]
"""Is shown a trained state, by the identity of its record; nothing is judged by it."""


def run(
    job: Job,
    launcher: Launcher,
    tracker: Tracker,
    timed: Callable[[Fit], tuple[Point, ...]],
    keep: Keep | None = None,
    progress: Progress = UNKEPT,
    watch: Gauge = gauge,
    look: Look | None = None,
) -> tuple[Record, ...]:
    """Train once, predict every test set, and give one record for each task of the job.

    ``timed`` calls the fit, and only the fit, exactly once; a benchmark fixture can stand there.
    ``keep`` is given the trained model, at once, so that a failing evaluation loses no training;
    ``progress`` is where the training can be taken up again after an interruption, ``watch`` what sees
    how busy the device is meanwhile. ``look`` is shown the trained state too, but no case is judged by
    it: where a model has none that can be sent, there is no look. A child that fails is a result too:
    its status and cause are in each record.
    """
    data = {task: job.dataset(task) for task in job.tasks}
    draft = _draft(job, launcher)
    clock = _Clock()
    child = None
    try:
        with opened(launcher, order_of(job, data)) as child:
            clock.lap("build")
            given = data[job.tasks[0]], job.plan, job.seed, tracker, progress, job.profile.early
            with watch(job.device) as seen:
                curve = timed(lambda: fit(child, *given))
            clock.lap("fit")
            draft = _trained(replace(draft, utilisation=seen.share), job, child, curve)
            state = trained_state(child) if job.profile.apart or keep else None
            if state is not None:
                draft = replace(draft, saved_numbers=state.numbers)
                if keep is not None:
                    keep(draft.identity, Saved(state, replace(draft, seconds=dict(clock.seconds))))
            if look is not None and (seen_state := state or child.peek()) is not None:
                look(draft.identity, seen_state)
            figures = {} if job.profile.apart else _examined(job, child, data)
            own = _pace(job, child, data)  # last: it trains on
        if job.profile.apart and state is not None:
            figures = _examined_apart(job, launcher, data, state)
        clock.lap("evaluate")
        clock.seconds |= own | _yardstick(job, launcher, data, own)
    except ChildError as error:
        draft = replace(draft, status=error.status, cause=str(error))
        figures = {}
    draft = _measured(draft, child, clock.seconds)
    return tuple(_finished(job, task, draft, figures.get(task)) for task in job.tasks)


def run_saved(job: Job, launcher: Launcher, saved: Saved) -> tuple[Record, ...]:
    """Predict every test set with a saved model, and give one record for each task of the job.

    What is known of its training (curve, times) is in the records too; they say ``from_saved``.
    """
    data = {task: job.dataset(task) for task in job.tasks}
    draft = replace(_draft(job, launcher), from_saved=True, saved_numbers=saved.state.numbers)
    if saved.training is not None:
        draft = replace(draft, curve=saved.training.curve, pieces=saved.training.pieces)
    clock = _Clock(saved.training.seconds if saved.training else {})
    child = None
    figures: dict[Task, tuple[Evaluation, ...]] = {}
    try:
        with opened(launcher, order_of(job, data)) as child:
            check_size(saved.state, child.built.parameters)
            child.load(saved.state)
            figures = _examined(job, child, data)
        clock.lap("evaluate")
    except ChildError as error:
        draft = replace(draft, status=error.status, cause=str(error))
    draft = _measured(draft, child, clock.seconds)
    return tuple(_finished(job, task, draft, figures.get(task)) for task in job.tasks)


def _pace(job: Job, child: Child, data: Mapping[Task, Dataset]) -> dict[str, float]:
    """Seconds of a step and of a prediction; conformance and rehearsals are not about speed."""
    if job.profile.conformance or job.plan.budget.held_out is not None:
        return {}
    return dict(pace(child, data[job.tasks[0]], job.plan, job.seed))


def _yardstick(
    job: Job, launcher: Launcher, data: Mapping[Task, Dataset], own: Mapping[str, float]
) -> dict[str, float]:
    """The same two times of the reference layer, ``reference_step`` and ``reference_predict``.

    Nothing where the entry has none of its ``own`` to compare, or sizes of its own. Nothing where the
    yardstick's child fails either: that is no failure of the submission, whose figures stand.
    """
    if job.custom is not None or not own:
        return {}
    source = yardsticks.source("LSTM")
    order = replace(
        order_of(job, data), entry="yardstick", origin="yardstick.py", source=source, kind="mixer"
    )
    try:
        with opened(launcher, order) as child:
            return {f"reference_{name}": took for name, took in _pace(job, child, data).items()}
    except ChildError:
        return {}


def _examined(
    job: Job, child: Child, data: Mapping[Task, Dataset]
) -> dict[Task, tuple[Evaluation, ...]]:
    deadline = max(PREDICT_DEADLINE, job.plan.budget.deadline)
    return {task: evaluate(child, data[task], deadline) for task in job.tasks}


def _examined_apart(
    job: Job, launcher: Launcher, data: Mapping[Task, Dataset], state: State
) -> dict[Task, tuple[Evaluation, ...]]:
    """In a second process: nothing but the state goes on to see the test inputs."""
    with opened(launcher, order_of(job, data)) as second:
        second.load(state)
        return _examined(job, second, data)


def _draft(job: Job, launcher: Launcher) -> Record:
    """What is known before anything ran."""
    return Record(
        identity=job.identity(job.tasks[0]),
        entry=job.entry,
        status="error",
        isolation=launcher.level,
        isolation_notes=launcher.isolation.notes,
        budget=job.budget,
        custom=job.custom,
        environment=machine.versions(),
        machine=machine.describe(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _trained(draft: Record, job: Job, child: Child, curve: tuple[Point, ...]) -> Record:
    """With what a fit leaves behind."""
    stopped = curve[-1].step if curve[-1].step < job.plan.budget.steps else None
    said = replace(draft, pieces=child.pieces, graphs=child.graphs)
    return replace(said, curve=curve, stopped_at=stopped)


def _measured(draft: Record, child: Child | None, seconds: dict[str, float]) -> Record:
    """With what the controller measured of the child's process."""
    if child is None:
        return replace(draft, seconds=seconds)
    peak, baseline = None, child.entered.get("baseline")
    if child.exit is not None:
        if child.exit.peak_memory is not None and baseline is not None:
            peak = max(0, child.exit.peak_memory - baseline)
        if child.exit.cpu is not None:
            seconds = {**seconds, "cpu": round(child.exit.cpu, 3)}
            draft = _kept_busy(draft, child.exit.cpu, child.lived)
    return replace(
        draft,
        seconds=seconds,
        peak_memory=peak,
        parameters=child.built.parameters or None,
        oversize=child.built.oversize,
        state_size=child.built.state_size,
        baseline_memory=baseline,
    )


def _kept_busy(draft: Record, busy: float, lived: float) -> Record:
    """On a CPU the process tells how busy it kept it; on a GPU that was seen from outside."""
    device, _ = machine.used(draft.identity.device_class)
    if device.kind != "cpu" or not lived:
        return draft
    return replace(draft, utilisation=round(busy / lived, 4))


def _finished(
    job: Job, task: Task, draft: Record, figures: tuple[Evaluation, ...] | None
) -> Record:
    record = replace(draft, identity=job.identity(task))
    if figures is None:
        return record
    accuracy, floor, ceiling = (
        float(np.mean([getattr(figure, name) for figure in figures if figure.scored]))
        for name in ("accuracy", "floor", "ceiling")
    )
    record = replace(
        record,
        status="pass",
        evaluations=figures,
        accuracy=accuracy,
        floor=floor,
        ceiling=ceiling,
        metric=job.dataset(task).metric,
        score=score(accuracy, floor, ceiling),
        validation=_validation(job, task, draft.curve),
    )
    return conforming(record) if job.profile.conformance else judge(record)


def _validation(job: Job, task: Task, curve: tuple[Point, ...]) -> Evaluation | None:
    """The last validation with its floor and ceiling; a borrowed training's are not the task's."""
    accuracies = [point.accuracy for point in curve if point.accuracy is not None]
    if task is not job.tasks[0] or not accuracies:
        return None
    levels = job.dataset(task).levels("validation")
    return Evaluation("validation", accuracies[-1], levels.floor, levels.ceiling)


class _Clock:
    """Wall-clock seconds of consecutive phases, beside those of an earlier run."""

    def __init__(self, earlier: Mapping[str, float] = MappingProxyType({})) -> None:
        self.seconds = dict(earlier)
        self._last = time.monotonic()

    def lap(self, phase: str) -> None:
        now = time.monotonic()
        self.seconds[phase] = round(now - self._last, 3)
        self._last = now
