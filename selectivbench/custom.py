"""One training at sizes of one's own, outside any verdict: what ``selectivbench train`` does.

A sweep is many of these. What is not given stays as in the profile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from selectivbench import sizes
from selectivbench.checkpoints import Checkpoints
from selectivbench.errors import UsageError, explain
from selectivbench.machine import Device, resolve
from selectivbench.profiles import Plan, get_profile
from selectivbench.record import REUSED, Record, Tracker, digest
from selectivbench.runner import Job, run, run_saved
from selectivbench.sandbox import levels
from selectivbench.sandbox.launch import Launcher
from selectivbench.sandbox.launchers import Launchers
from selectivbench.saved import FOLDER, SavedModels
from selectivbench.sizes import Size
from selectivbench.store import SESSION, RecordStore
from selectivbench.submission import load
from selectivbench.tasks import Task, get_task
from selectivbench.tasks.plans import variant_of
from selectivbench.tracking.contract import Follower, Tracking
from selectivbench.tracking.events import Events
from selectivbench.tracking.together import Given, Together

CHECKPOINTS = "checkpoints"
"""Beside the records of a folder: trainings that go on, or were interrupted."""


@dataclass(frozen=True)
class Training:
    """One training: a submission, a task and a seed, at the sizes of a profile but for ``sizes``.

    task: one that borrows another's training trains that one, and is evaluated on it.
    variant: None for the first of the profile. sizes: by the names of ``sizes.AXES``.
    UsageError where a task, profile or size does not exist (with the near name) or cannot be.
    """

    submission: Path
    task: str
    variant: str | None
    profile: str
    seed: int
    sizes: Mapping[str, Size]

    def __post_init__(self) -> None:
        self._plan()
        variant_of(self._tasks[-1], self.profile, self.variant)

    @property
    def numbers(self) -> dict[str, int | float]:
        """The sizes as numbers, in a fixed order."""
        return sizes.read(self.sizes)

    @property
    def key(self) -> str:
        """24 hex digits that are the same wherever the file lies and however a size is written."""
        task = self._tasks[-1]
        return digest(
            {
                "entry": self.submission.stem,
                "source": hashlib.sha256(self.submission.read_bytes()).hexdigest(),
                "task": task.id,
                "variant": variant_of(task, self.profile, self.variant),
                "profile": self.profile,
                "seed": self.seed,
                "sizes": self.numbers,
            }
        )

    def command(self) -> list[str]:
        """The words of the command line that does the same."""
        words = ["selectivbench", "train", str(self.submission), "--task", self.task]
        words += ["--variant", self.variant] if self.variant else []
        words += ["--profile", self.profile, "--seed", str(self.seed)]
        for name, value in self.numbers.items():
            words += [f"--{name.replace('_', '-')}", str(value)]
        return words

    def job(self, device: Device) -> Job:
        """What the runner is to do; SubmissionError where the file is no submission."""
        submission, plan = load(self.submission), self._plan()
        if "lr" in self.sizes:  # then it goes before the file's own
            submission = replace(submission, train={"lr": plan.budget.lr})
        return Job(
            submission=submission,
            tasks=self._tasks,
            variant=variant_of(self._tasks[-1], self.profile, self.variant),
            profile=replace(get_profile(self.profile), default_plan=plan, plans={}),
            seed=self.seed,
            device=device,
            custom=self.numbers,
        )

    @property
    def _tasks(self) -> tuple[Task, ...]:
        """The task that is trained, and the one that was asked for where that is another."""
        task = get_task(self.task)
        trained = get_task(task.trains_on)
        return (task,) if trained.id == task.id else (trained, task)

    def _plan(self) -> Plan:
        return sizes.resized(get_profile(self.profile).plan(self._tasks[0].name), self.numbers)


@dataclass(frozen=True)
class Place:
    """Where and how trainings are done: the folder of records, the device, the isolation.

    save keeps the trained model beside the record; from_saved evaluates that, and trains nothing.
    every: seconds between two checkpoints.
    """

    out: Path
    device: str = "auto"
    isolate: str = "1"
    save: bool = False
    from_saved: bool = False
    every: float = 30.0


def run_training(
    training: Training,
    place: Place,
    tracker: Tracker | None = None,
    launchers: Launchers | None = None,
) -> Record:
    """Do a training, or what is left of it after an interruption, and write its record.

    A record that is there already is given back. ``launchers``, where many trainings share them, stay
    open. A submission that fails gives a record with the cause; UsageError is for what was asked.
    """
    job = training.job(resolve(place.device))
    _check_data(job)
    store, models = RecordStore(place.out), SavedModels(place.out / FOLDER)
    trained, wanted = job.identity(job.tasks[0]), job.identity(job.tasks[-1])
    with store.lock(trained.key):
        found = store.find(wanted).record
        if found is not None and (not place.save or models.has(trained)):
            return found
        checkpoints = Checkpoints(
            place.out / CHECKPOINTS / f"{trained.key}.safetensors", place.every
        )
        with _followed(job, place, tracker) as follower:
            with _launcher(job, place, launchers) as launcher:
                if place.from_saved:
                    records = run_saved(job, launcher, models.find(trained))
                else:
                    kept = models.write if place.save else None
                    records = run(job, launcher, follower, lambda fit: fit(), kept, checkpoints)
            store.write_source(job.submission.sha256, job.submission.source)
            written = [store.write(record) for record in records]
            for record in written:
                follower.done(record)
        if all(record.status in REUSED for record in written):
            checkpoints.clear()
    return written[-1]


def line(record: Record) -> str:
    """A record in one line: figures, and what it is filed under."""
    who = record.identity
    name = f"{who.entry} {who.task} {who.variant} {who.profile} seed {who.seed}"
    if record.accuracy is None or record.score is None:
        return f"{name}: {record.status}: {record.cause}"
    seen = [point.accuracy for point in record.curve if point.accuracy is not None]
    validation = f"{seen[-1]:.4f}" if seen else "-"
    figures = f"{record.metric} {record.accuracy:.4f}, score {record.score:.4f}"
    return f"{name}: {figures}, validation {validation}  ({who.stem}.json)"


@contextmanager
def _followed(job: Job, place: Place, tracker: Tracker | None) -> Iterator[Follower]:
    """The training's events, which ``selectivbench watch`` reads, and a tracker of the caller's."""
    members: list[Tracking] = [Events(place.out / SESSION)]
    if tracker is not None:
        members.append(Given(tracker))
    follower = Together(members).follow(job.start)
    try:
        yield follower
    finally:
        follower.end()


@contextmanager
def _launcher(job: Job, place: Place, shared: Launchers | None) -> Iterator[Launcher]:
    imports = job.submission.imports
    if shared is not None:
        yield shared.of(imports)
        return
    own = Launchers(job.device.kind, levels.resolve(place.isolate))
    try:
        yield own.of(imports)
    finally:
        own.close()


def _check_data(job: Job) -> None:
    """There is as much data as was asked for."""
    most, samples = job.dataset(job.tasks[0]).sizes["train"], job.plan.budget.samples
    if samples is not None and samples > most:
        raise UsageError(explain("dataset_size", samples, f"{most} at most in {job.profile.name}"))
    if job.plan.budget.batch_size > most:
        raise UsageError(explain("batch_size", job.plan.budget.batch_size, f"{most} at most"))
