"""One training and what is evaluated on it: everything that decides the result, before it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from selectivbench import machine
from selectivbench.profiles import Plan, Profile
from selectivbench.record import Entry, Identity, digest
from selectivbench.sandbox.orders import Order
from selectivbench.seeds import Stream
from selectivbench.submission import Submission
from selectivbench.tasks.base import Dataset, Task
from selectivbench.tasks.shortened import Shortened
from selectivbench.tracking import Start


@dataclass(frozen=True)
class Job:
    """One training, the unit of work, and every task that is evaluated on it.

    tasks: the trained task first. steps: a cut budget, or None for the profile's own.
    mode: autocast and CUDA graphs, the same for every entry.
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
    mode: machine.Mode = machine.PLAIN

    @property
    def plan(self) -> Plan:
        """Model size and budget, with the submission's own rate where it declares one."""
        plan = self.profile.plan(self.tasks[0].name, self.steps)
        lr = self.submission.train.get("lr", plan.budget.lr)
        dtype = self.submission.dtype if self._own_dtype else None
        return Plan(replace(plan.model, dtype=dtype), replace(plan.budget, lr=lr))

    @property
    def _own_dtype(self) -> bool:
        """fla's kernels of the delta rule take no float32 on CUDA; on a CPU all is float32.

        Under autocast they are given bfloat16 anyway, from weights that are float32 for all.
        """
        own = self.profile.own_dtype and self.device.kind == "cuda"
        return own and self.mode.precision is None

    def dataset(self, task: Task) -> Dataset:
        """The data of one of the tasks."""
        data = task.dataset(self.profile.name, self.variant, self.seed)
        held_out = self.plan.budget.held_out
        if held_out is None:
            return data
        rehearsal = self.custom is None  # else a number of one's own, to be taken as it is
        return Shortened(data, held_out, even=rehearsal)

    @property
    def budget(self) -> dict[str, Any]:
        """What the record says of model and budget; its digest is part of the identity."""
        facts: dict[str, Any] = {**self.plan.facts(), **self.mode.facts}
        if self.profile.early is not None:
            facts["early"] = asdict(self.profile.early)
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
            device_class=self.mode.device_class(self.device),
            budget_digest=digest(self.budget),
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
            budget=self.budget,
            source=self.submission.source,
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
        mode=job.mode,
        sharers=job.device.sharers,
    )
