"""One test for each (submission, task, variant, seed): a custom collector with stable ids.

``lstm.py::selective_copy-v1[seed1]`` is the same in every install and working directory. No
submission is run at collection; its literals are read from its syntax tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_selectivbench import bench
from pytest_selectivbench.items import SubmissionItem
from pytest_selectivbench.options import Settings
from pytest_selectivbench.timings import TimingCase
from pytest_selectivbench.validity import ValidityCase, wanted
from selectivbench.errors import SelectivError, SubmissionError, UsageError, explain, near
from selectivbench.machine import PLAIN, Device, Mode, resolve
from selectivbench.profiles import Profile, get_profile
from selectivbench.runner import Job
from selectivbench.submission import Submission, find_files, load
from selectivbench.tasks import TASKS, Task, get_task
from selectivbench.timing import WHAT, TimingJob

BENCH = Path(bench.__file__)
"""The packaged bench module: what pytest is told to collect."""


@dataclass(frozen=True)
class Plan:
    """Everything that decides which cases there are, checked."""

    files: tuple[Path, ...]
    profile: Profile
    chosen: tuple[tuple[Task, str], ...]
    seeds: tuple[int, ...]
    device: Device
    steps: int | None
    gate: bool
    validity: tuple[str, ...] = ()
    timing: bool = False
    mode: Mode = PLAIN

    @classmethod
    def of(cls, settings: Settings) -> Plan:
        """Check the settings; anything unknown is a UsageError with the near name."""
        profile, device = get_profile(settings.profile), resolve(settings.device)
        plan = cls(
            files=find_files(settings.models),
            profile=profile,
            chosen=choose(settings.tasks or profile.default_tasks, profile),
            seeds=tuple(sorted(set(settings.seeds or profile.seeds))),
            device=device,
            steps=settings.steps,
            gate=settings.gate,
            validity=wanted(settings.validity, profile.conformance),
            timing=settings.timing,
            mode=_mode(settings, device),
        )
        for task, _ in plan.chosen:  # an impossible number of steps is said now
            profile.plan(get_task(task.trains_on).name, settings.steps)
        return plan

    def jobs(self, submission: Submission) -> Iterator[tuple[Task, Job]]:
        """Each case of a submission: the task it judges, and the training that it needs.

        In an order that keeps several workers busy: the longest trainings first, and last the cases
        that are judged on another's training, which would wait for it.
        """
        for task, variant in sorted(self.chosen, key=self._turn):
            for seed in self.seeds:
                yield task, self.job(submission, task, variant, seed)

    def _turn(self, chosen: tuple[Task, str]) -> tuple[bool, float]:
        task, _ = chosen
        return task.trains_on != task.id, -self.profile.minutes.get(task.name, 0.0)

    def timings(self, submission: Submission) -> Iterator[TimingJob]:
        """Each workload at each length, where timing was asked for."""
        mode = Mode(self.mode.precision)  # a layer's own step is timed without a graph around it
        for what in WHAT if self.timing else ():
            for length in self.profile.timing.lengths:
                yield TimingJob(submission, self.profile, self.device, what, length, mode)

    def job(self, submission: Submission, task: Task, variant: str, seed: int) -> Job:
        """The training behind a case, with every task that is evaluated on it."""
        trained = get_task(task.trains_on)
        borrowers = [other for other in TASKS if other.trains_on == trained.id != other.id]
        with_variant = [t for t in borrowers if variant in t.variants.get(self.profile.name, ())]
        tasks = (trained, *with_variant)
        return Job(
            submission, tasks, variant, self.profile, seed, self.device, self.steps, mode=self.mode
        )


def _mode(settings: Settings, device: Device) -> Mode:
    """How the device is to compute; UsageError for CUDA graphs where there is no CUDA."""
    if settings.cuda_graphs and device.kind != "cuda":
        remedy = "leave --selectiv-cuda-graphs out"
        raise UsageError(explain("device", device.kind, "cuda, for CUDA graphs", remedy))
    return Mode(None if settings.precision == "fp32" else settings.precision, settings.cuda_graphs)


def choose(names: tuple[str, ...], profile: Profile) -> tuple[tuple[Task, str], ...]:
    """(task, variant) of each NAME, NAME:VARIANT or ``all``, in the registry's order."""
    chosen = set()
    for name in names:
        if name == "all":
            chosen |= {(t.id, v) for t in TASKS for v in t.variants.get(profile.name, ())}
            continue
        head, _, variant = name.partition(":")
        task = get_task(head)
        variants = task.variants.get(profile.name, ())
        if not variants or (variant and variant not in variants):
            what = f"variant of {task.name} in profile {profile.name}"
            raise UsageError(explain(what, variant or "none", near(variant, variants) or "none"))
        chosen.add((task.id, variant or variants[0]))
    return tuple(
        (task, variant)
        for task in TASKS
        for variant in task.variants.get(profile.name, ())
        if (task.id, variant) in chosen
    )


class Benchmark(pytest.Module):
    """The packaged bench module as pytest sees it; it holds the submissions, not functions."""

    plan: Plan

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        for file in self.plan.files:
            entry = Entry.from_parent(self, name=file.name, nodeid=file.name)
            entry.plan, entry.file = self.plan, file
            yield entry


class Entry(pytest.Collector):
    """One submission file."""

    plan: Plan
    file: Path

    def collect(self) -> Iterator[pytest.Item]:
        try:
            submission = load(self.file)
            _known_tasks(submission)
        except SelectivError as error:
            yield Broken.of(self, error)
            return
        for task, job in self.plan.jobs(submission):
            yield Case.of(self, task, job)
        for check in self.plan.validity:
            task, variant = self.plan.chosen[0]
            job = self.plan.job(submission, task, variant, self.plan.seeds[0])
            yield ValidityCase.of(self, job, check)
        for timing in self.plan.timings(submission):
            yield TimingCase.of(self, timing)


class Case(SubmissionItem):
    """Train (or re-use) and judge one submission on one task with one seed."""

    job: Job
    task: Task
    expected_fail: bool
    sentences = (bench.BelowBar, bench.CaseFailed, SelectivError)

    @classmethod
    def of(cls, parent: Entry, task: Task, job: Job) -> Case:
        """With its id, and the strict xfail where the submission expects to stay below the bar."""
        item: Case = cls.from_parent(parent, name=case_name(job, task), callobj=bench.judge_case)
        item.submission, item.task, item.job = job.submission, task, job
        gated = parent.plan.gate and not job.profile.conformance
        item.expected_fail = gated and task.id in job.submission.expected_fail
        if item.expected_fail:
            reason = f"{job.submission.id} expects to stay below the bar of {task.id}"
            item.add_marker(pytest.mark.xfail(strict=True, raises=bench.BelowBar, reason=reason))
        return item


def case_name(job: Job, task: Task | None = None) -> str:
    """``memorization-v1[amb8-seed1]``; a task's only variant, ``base``, goes without saying."""
    variant = "" if job.variant == "base" else f"{job.variant}-"
    return f"{(task or job.tasks[0]).id}[{variant}seed{job.seed}]"


class Broken(pytest.Item):
    """A file that is no submission: one failing test, so that the other files still run."""

    error: SelectivError

    @classmethod
    def of(cls, parent: Entry, error: SelectivError) -> Broken:
        """The item that fails with the error's own sentence."""
        item: Broken = cls.from_parent(parent, name="submission")
        item.error = error
        return item

    def runtest(self) -> None:
        raise self.error

    def reportinfo(self) -> tuple[Path, int | None, str]:
        file = self.nodeid.partition("::")[0]
        return self.config.rootpath / file, None, f"{file}: {self.name}"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:  # noqa: ARG002
        return str(excinfo.value)


def _known_tasks(submission: Submission) -> None:
    """A misspelt expectation would never be checked, so it is an error."""
    known = [task.id for task in TASKS]
    for name in submission.expected_fail:
        if name not in known:
            what = f"{submission.path}: EXPECTED_FAIL"
            raise SubmissionError(explain(what, name, near(name, known)))
