"""The validity checks of one submission: trains it briefly, then looks at what it predicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from selectivbench import checks
from selectivbench.batch import Batch
from selectivbench.checks import Logits
from selectivbench.dialogue import evaluate, fit
from selectivbench.errors import UsageError, explain, near
from selectivbench.machine import PLAIN
from selectivbench.metrics import element_hits
from selectivbench.record import CHECKS, Finding
from selectivbench.runner import Job, order_of
from selectivbench.sandbox.controller import PREDICT_DEADLINE, Child, opened
from selectivbench.sandbox.launch import Launcher
from selectivbench.tasks import get_task
from selectivbench.tasks.base import Dataset, Levels
from selectivbench.tracking import NullTracker

ALL = CHECKS
QUICK = ("causality", "batch-independence", "determinism", "similarity")
"""What smoke runs."""
TASK = "noisy_gaps"
"""Has gaps, noise and a target at every step, so that peeking anywhere shows."""
STEPS = 5
CONTROL_STEPS = 200
SEQUENCES = 16


@dataclass(frozen=True)
class Examination:
    """The checks of a submission, each run when it is asked for; what they share is done once."""

    job: Job
    launcher: Launcher
    others: Mapping[str, str] = field(default_factory=dict)
    """Sources of other entries by name, for ``similarity``."""

    @classmethod
    def of(
        cls, job: Job, launcher: Launcher, others: Mapping[str, str] = MappingProxyType({})
    ) -> Examination:
        """Of the job's submission, on the task that the checks use, in the job's profile.

        Without autocast and CUDA graphs: the tolerances are those of float32, and what is looked
        at is the layer.
        """
        task = get_task(TASK)
        variant = task.variants[job.profile.name][0]
        plain = replace(job, tasks=(task,), variant=variant, steps=STEPS, mode=PLAIN)
        return cls(plain, launcher, others)

    def find(self, check: str) -> Finding:
        """Run one check; UsageError where there is none of that name."""
        if check not in ALL:
            raise UsageError(explain("validity check", check, near(check, ALL)))
        finding: Finding = getattr(self, f"_{check.replace('-', '_')}")()
        return finding

    def _causality(self) -> Finding:
        return self._looked_at[0]

    def _batch_independence(self) -> Finding:
        return self._looked_at[1]

    def _determinism(self) -> Finding:
        with self._trained(self.job) as child:
            again = _asked(child, self._batch)
        tolerance = 0.0 if self.job.device.kind == "cpu" else checks.TOLERANCE
        return checks.determinism(self._looked_at[2], again, tolerance)

    def _embedded_weights(self) -> Finding:
        return checks.embedded_weights(self.job.submission.source)

    def _similarity(self) -> Finding:
        return checks.similarity(self.job.submission.source, self.others)

    def _state_bound(self) -> Finding:
        size = self._looked_at[3]
        return checks.state_bound(size, self.job.plan.model.d_model, self._data.max_length)

    def _shuffled_labels(self) -> Finding:
        budget = self.job.profile.plan(TASK).budget
        job = replace(self.job, steps=min(CONTROL_STEPS, budget.steps))
        data = Shuffled(self._data)
        with self._trained(job, data) as child:
            (figure, *_) = evaluate(child, data)
        rows = np.arange(self._data.sizes["test"])
        element = self._data.batch("test", rows).element
        constant = np.zeros((*element.shape, 1), dtype=np.float32)
        _, elements = element_hits(constant, np.zeros_like(element), element)
        return checks.shuffled_labels(figure.accuracy, self._data.levels("test").chance, elements)

    @cached_property
    def _data(self) -> Dataset:
        return self.job.dataset(self.job.tasks[0])

    @cached_property
    def _batch(self) -> Batch:
        return self._data.batch("validation", np.arange(SEQUENCES))

    @cached_property
    def _looked_at(self) -> tuple[Finding, Finding, Logits, int | None]:
        """One training, then what needs nothing but predictions."""
        with self._trained(self.job) as child:

            def predict(batch: Batch) -> Logits:
                return _asked(child, batch)

            causality = checks.causality(predict, self._batch)
            independence = checks.batch_independence(predict, self._batch)
            return causality, independence, predict(self._batch), child.built.state_size

    @contextmanager
    def _trained(self, job: Job, data: Dataset | None = None) -> Iterator[Child]:
        used = self._data if data is None else data
        task = job.tasks[0]
        with opened(self.launcher, order_of(job, {task: used})) as child:
            fit(child, used, job.plan, job.seed, NullTracker())
            yield child


class Shuffled(Dataset):
    """A dataset whose training labels say nothing; held-out ones are the true ones."""

    def __init__(self, data: Dataset) -> None:
        self._data = data
        self.encoding, self.n_classes = data.encoding, data.n_classes
        self.max_length, self.sizes, self.metric = data.max_length, data.sizes, data.metric
        self.evaluations = ("test",)

    def batch(self, split: str, indices: Sequence[int] | NDArray[np.int64]) -> Batch:
        """As the dataset under it, with targets dealt out again in training."""
        batch = self._data.batch(split, indices)
        if split != "train":
            return batch
        return checks.with_shuffled_labels(batch, int(indices[0]))

    def levels(self, split: str = "test") -> Levels:
        """Those of the true labels."""
        return self._data.levels(split)


def _asked(child: Child, batch: Batch) -> Logits:
    child.enter("check", PREDICT_DEADLINE)
    child.ask(batch)
    return child.logits(batch)
