"""From a submission and a task to records: the whole chain, in one readable function (``run``)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.resources import files

import numpy as np

from selectivbench import machine
from selectivbench.checks import trained_state
from selectivbench.dialogue import evaluate, fit, pace
from selectivbench.errors import ChildError
from selectivbench.metrics import score
from selectivbench.profiles import Plan, Profile
from selectivbench.record import Entry, Evaluation, Identity, Point, Record, Tracker, digest
from selectivbench.sandbox.controller import Child, opened
from selectivbench.sandbox.launch import Launcher
from selectivbench.sandbox.orders import Order
from selectivbench.sandbox.states import State
from selectivbench.seeds import Stream
from selectivbench.submission import Submission
from selectivbench.tasks.base import Dataset, Task
from selectivbench.thresholds import conforming, judge
from selectivbench.tracking import Start

Fit = Callable[[], tuple[Point, ...]]


@dataclass(frozen=True)
class Job:
    """One training, the unit of work, and every task that is evaluated on it.

    tasks: the trained task first. steps: a cut budget, or None for the profile's own.
    """

    submission: Submission
    tasks: tuple[Task, ...]
    variant: str
    profile: Profile
    seed: int
    device: machine.Device
    steps: int | None = None

    @property
    def plan(self) -> Plan:
        """Model size and budget, with the submission's own rate where it declares one."""
        plan = self.profile.plan(self.tasks[0].name, self.steps)
        lr = self.submission.train.get("lr", plan.budget.lr)
        return replace(plan, budget=replace(plan.budget, lr=lr))

    def dataset(self, task: Task) -> Dataset:
        """The data of one of the tasks."""
        return task.dataset(self.profile.name, self.variant, self.seed)

    def identity(self, task: Task) -> Identity:
        """What the record of one of the tasks will be filed under."""
        return Identity(
            entry=self.submission.id,
            source_sha256=self.submission.sha256,
            task=task.id,
            variant=self.variant,
            profile=self.profile.name,
            seed=self.seed,
            device_class=self.device.name,
            budget_digest=digest(asdict(self.plan)),
            environment_digest=digest(machine.versions()),
        )

    @property
    def entry(self) -> Entry:
        """What the submission says of itself."""
        said = self.submission
        return Entry(
            said.id, said.name, said.kind, said.paper, said.authors, said.tags, said.expected_fail
        )

    @property
    def start(self) -> Start:
        """What followers are told before the first step."""
        return Start(
            identity=self.identity(self.tasks[0]),
            entry=self.entry,
            tasks=tuple(task.id for task in self.tasks),
            steps=self.plan.budget.steps,
            budget=asdict(self.plan),
            source=self.submission.source,
        )


def run(
    job: Job, launcher: Launcher, tracker: Tracker, timed: Callable[[Fit], tuple[Point, ...]]
) -> tuple[Record, ...]:
    """Train once, predict every test set, and give one record for each task of the job.

    ``timed`` calls the fit, and only the fit, exactly once; a benchmark fixture can stand there.
    A child that fails is a result too: its status and cause are in each record.
    """
    data = {task: job.dataset(task) for task in job.tasks}
    draft = _draft(job, launcher)
    clock = _Clock()
    child = None
    try:
        with opened(launcher, order_of(job, data)) as child:
            clock.lap("build")
            curve = timed(lambda: fit(child, data[job.tasks[0]], job.plan, job.seed, tracker))
            clock.lap("fit")
            draft = replace(draft, curve=curve)
            state = trained_state(child) if job.profile.apart else None
            figures = _examined(job, child, data) if state is None else {}
            own = _pace(job, child, data)  # last: it trains on
        if state is not None:
            draft = replace(draft, saved_numbers=state.numbers)
            figures = _examined_apart(job, launcher, data, state)
        clock.lap("evaluate")
        clock.seconds |= own | _yardstick(job, launcher, data)
    except ChildError as error:
        draft = replace(draft, status=error.status, cause=str(error))
        figures = {}
    draft = _measured(draft, child, clock.seconds)
    return tuple(_finished(job, task, draft, figures.get(task)) for task in job.tasks)


def _pace(job: Job, child: Child, data: Mapping[Task, Dataset]) -> dict[str, float]:
    """Seconds of a step and of a prediction; conformance is not about speed."""
    if job.profile.conformance:
        return {}
    return dict(pace(child, data[job.tasks[0]], job.plan, job.seed))


def _yardstick(job: Job, launcher: Launcher, data: Mapping[Task, Dataset]) -> dict[str, float]:
    """The same two times of the reference layer, ``reference_step`` and ``reference_predict``.

    Nothing where its child fails: that is no failure of the submission, whose figures stand.
    """
    if job.profile.conformance:
        return {}
    source = files("selectivbench").joinpath("yardstick.py").read_text(encoding="utf-8")
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
    return {task: evaluate(child, data[task]) for task in job.tasks}


def _examined_apart(
    job: Job, launcher: Launcher, data: Mapping[Task, Dataset], state: State
) -> dict[Task, tuple[Evaluation, ...]]:
    """In a second process: nothing but the state goes on to see the test inputs."""
    with opened(launcher, order_of(job, data)) as second:
        second.load(state)
        return _examined(job, second, data)


def order_of(job: Job, data: Mapping[Task, Dataset]) -> Order:
    """What the child of a job is told; its folder and user are the sandbox's to fill in."""
    trained, plan = data[job.tasks[0]], job.plan
    return Order(
        entry=job.submission.id,
        origin=str(job.submission.path.absolute()),
        source=job.submission.source,
        kind=job.submission.kind,
        size=plan.model,
        budget=plan.budget,
        encoding=trained.encoding,
        n_classes=trained.n_classes,
        max_length=max(dataset.max_length for dataset in data.values()),
        init_seed=Stream.named("initialisation", job.seed).seed(),
        device=job.device.kind,
        threads=1,
        folder="",
    )


def _draft(job: Job, launcher: Launcher) -> Record:
    """What is known before anything ran."""
    return Record(
        identity=job.identity(job.tasks[0]),
        entry=job.entry,
        status="error",
        isolation=launcher.level,
        isolation_notes=launcher.isolation.notes,
        budget=asdict(job.plan),
        environment=machine.versions(),
        machine=machine.describe(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


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
    return replace(
        draft,
        seconds=seconds,
        peak_memory=peak,
        parameters=child.built.parameters or None,
        oversize=child.built.oversize,
        state_size=child.built.state_size,
        baseline_memory=baseline,
    )


def _finished(
    job: Job, task: Task, draft: Record, figures: tuple[Evaluation, ...] | None
) -> Record:
    record = replace(draft, identity=job.identity(task))
    if figures is None:
        return record
    accuracy, floor, ceiling = (
        float(np.mean([getattr(figure, name) for figure in figures]))
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
    )
    return conforming(record) if job.profile.conformance else judge(record)


class _Clock:
    """Wall-clock seconds of consecutive phases."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, phase: str) -> None:
        now = time.monotonic()
        self.seconds[phase] = round(now - self._last, 3)
        self._last = now
