"""What the cases of one session share: the record store, and the launchers of children."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_selectivbench import results
from pytest_selectivbench.cases import Case, case_name
from pytest_selectivbench.ears import Ears
from pytest_selectivbench.neighbours import neighbours
from pytest_selectivbench.results import Outcome
from selectivbench import runner
from selectivbench.record import Finding, Point, Record, Tracker
from selectivbench.sandbox.launchers import Launchers
from selectivbench.saved import SavedModels
from selectivbench.store import SESSION, TIMINGS, Found, RecordStore
from selectivbench.tasks import Task
from selectivbench.times import Timing
from selectivbench.timing import TimingJob, time_layers
from selectivbench.tracking.gates import Gates
from selectivbench.tracking.together import Together
from selectivbench.validity import Examination


@dataclass
class Lab:
    """Shared by the cases of one pytest process. Launchers start when they are first needed.

    ears: for the pictures of W&B runs; None where there are none.
    """

    store: RecordStore
    launchers: Launchers
    gate: bool
    tracking: Together
    models: Models
    ears: Ears | None = None
    _examinations: dict[str, Examination] = field(default_factory=dict)

    def outcome(self, job: runner.Job, task: Task, request: pytest.FixtureRequest) -> Outcome:
        """The record of a case: re-used, or trained by whichever case of the training comes first."""
        identity = job.identity(task)
        with self.store.lock(job.identity(job.tasks[0]).key):
            found = self.models.allow(self.store.find(identity), job)
            if found.record is not None:
                self.tracking.known(found.record, job.submission.source)
                return Outcome(found.record, True, found.reason)
            timer = _Timer(request, f"{job.submission.id} {case_name(job)}", job.tasks[0].id)
            records = self._kept(job, timer)
        record = next(record for record in records if record.identity == identity)
        timer.describe(record)
        return Outcome(record, False, found.reason)

    def _kept(self, job: runner.Job, timer: _Timer) -> tuple[Record, ...]:
        """Make the records of a job and write them, followed by whoever tracks the session."""
        tracker = self.tracking.follow(job.start)
        try:
            records = self._made(job, tracker, timer)
            self.store.write_source(job.submission.sha256, job.submission.source)
            kept = tuple(self.store.write(record) for record in records)
            # Those of an earlier model: a later run would show them as this one's.
            Gates.path(self.store.folder / SESSION, kept[0].identity.stem).unlink(missing_ok=True)
            if self.ears is not None:
                self.ears.hear(job, kept[0])
            for record in kept:
                tracker.done(record)
        finally:
            tracker.end()
        return kept

    def _made(self, job: runner.Job, tracker: Tracker, timer: _Timer) -> tuple[Record, ...]:
        """Train, or evaluate the saved model of an earlier training."""
        launcher = self.launchers.of(job.submission.imports)
        if not self.models.instead:
            keep = self.models.write if self.models.keep else None
            look = self.ears.remember if self.ears is not None else None
            return runner.run(job, launcher, tracker, timer, keep, look=look)
        trained = job.identity(job.tasks[0])
        saved = self.models.find(trained)
        if self.ears is not None:
            self.ears.remember(trained, saved.state)
        known = saved.training or self.store.last(trained)
        return runner.run_saved(job, launcher, replace(saved, training=known))

    @property
    def troubles(self) -> tuple[str, ...]:
        """One sentence for each follower that failed."""
        return (*self.tracking.troubles, *(self.ears.troubles if self.ears else ()))

    def report(self, case: Case, outcome: Outcome) -> None:
        """Send the row to wherever the summary is made (another process, under xdist)."""
        case.user_properties.append(
            (results.PROPERTY, json.dumps(results.row(outcome, case.expected_fail)))
        )

    def examined(self, job: runner.Job, check: str) -> Finding:
        """What a validity check finds of a submission, kept with its records too."""
        finding = self._examination(job).find(check)
        self.store.note(job.identity(job.tasks[0]), finding)
        return finding

    def _examination(self, job: runner.Job) -> Examination:
        """What the checks of a submission share is done once."""
        key = job.submission.sha256
        if key not in self._examinations:
            launcher = self.launchers.of(job.submission.imports)
            others = neighbours(job.submission.path)
            self._examinations[key] = Examination.of(job, launcher, others)
        return self._examinations[key]

    def timing(self, job: TimingJob) -> Timing:
        """Time a layer anew: a time is of the moment, so there is nothing to re-use."""
        timing = time_layers(job, self.launchers.of(job.submission.imports))
        path = timing_path(self.store.folder, job.stem)
        path.parent.mkdir(exist_ok=True)
        self.store.write_text(path, timing.to_json())
        return timing

    def close(self) -> None:
        """End every launcher and its children, and what follows the cases."""
        self.launchers.close()
        self.tracking.close()


@dataclass(frozen=True)
class Models(SavedModels):
    """The saved models of a session: whether they are to be kept, or used instead of training."""

    keep: bool = False
    instead: bool = False

    def allow(self, found: Found, job: runner.Job) -> Found:
        """A record that was found is not re-used where its model is wanted and was not kept."""
        if self.keep and found.record is not None and not self.has(job.identity(job.tasks[0])):
            return Found(None, "its model was not kept")
        return found


class _Timer:
    """Runs the fit through pytest-benchmark's fixture where there is one."""

    def __init__(self, request: pytest.FixtureRequest, name: str, group: str) -> None:
        self._request, self._name, self._group = request, name, group
        self._fixture: Any = None

    def __call__(self, fit: Callable[[], tuple[Point, ...]]) -> tuple[Point, ...]:
        if not self._request.config.pluginmanager.hasplugin("benchmark"):
            return fit()
        self._fixture = self._request.getfixturevalue("benchmark")
        self._fixture.name, self._fixture.group = self._name, self._group
        points: tuple[Point, ...] = self._fixture.pedantic(fit, rounds=1, iterations=1)
        return points

    def describe(self, record: Record) -> None:
        """Put what the time stands for beside it in the benchmark's report."""
        if self._fixture is not None:
            identity = record.identity
            self._fixture.extra_info.update(
                entry=identity.entry,
                task=identity.task,
                variant=identity.variant,
                profile=identity.profile,
                seed=identity.seed,
                device_class=identity.device_class,
                accuracy=record.accuracy,
                verdict=record.status,
                record=identity.key,
            )


def timing_path(out: Path, stem: str) -> Path:
    """Where the result of a timing case is kept, beside the records."""
    return out / TIMINGS / f"{stem}.json"


def manifest_path(out: Path) -> Path:
    """The list of what a run was to give."""
    return out / SESSION / "manifest.json"
