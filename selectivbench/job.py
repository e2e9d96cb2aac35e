"""One training and what is evaluated on it: everything that decides the result, before it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from selectivbench import machine
from selectivbench.profiles import Plan, Profile
from selectivbench.record import Identity, digest
from selectivbench.sandbox.orders import Order
from selectivbench.seeds import Stream
from selectivbench.submission import Submission
from selectivbench.tasks.base import Dataset, Task


@dataclass(frozen=True)
class Job:
    """One training, the unit of work, and every task that is evaluated on it.

    tasks: the trained task first. steps: a cut budget, or None for the profile's own.
    custom: sizes of one's own that ``profile`` was changed by, or None for a benchmark case.
    """

    submission: Submission
    tasks: tuple[Task, ...]
    variant: str
    profile: Profile
    seed: int
    device: machine.Device
    steps: int | None = None
    custom: Mapping[str, float] | None = None

    @property
    def plan(self) -> Plan:
        """Model size and budget, with the submission's own rate where it declares one."""
        plan = self.profile.plan(self.tasks[0].name, self.steps)
        lr = self.submission.train.get("lr", plan.budget.lr)
        return replace(plan, budget=replace(plan.budget, lr=lr))

    def dataset(self, task: Task) -> Dataset:
        """The data of one of the tasks."""
        return task.dataset(self.profile.name, self.variant, self.seed)

    @property
    def budget(self) -> dict[str, Any]:
        """What the record says of model and budget; its digest is part of the identity."""
        facts = self.plan.facts()
        return facts if self.custom is None else {**facts, "custom": True}

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
            budget_digest=digest(self.budget),
            environment_digest=digest(machine.versions()),
        )


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
