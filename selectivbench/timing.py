"""How fast one layer is at one length, beside two yardsticks that take turns with it.

One case is one workload (``train``, ``forward``, ``decode``) at one length. Each of the three layers
has a child of its own; they work in turns, round by round, so that whatever else the machine does is
in all three times and leaves their ratio alone. The clock is the controller's; beside it stand the
seconds that the device was busy, in the child's word: CPU seconds, or the time between two events on
a GPU. Ratios and growth are of the busy seconds, since those bear a busy machine.
"""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from selectivbench import machine, yardsticks
from selectivbench.batch import Encoding
from selectivbench.errors import SelectivError
from selectivbench.profiles import Profile
from selectivbench.record import digest
from selectivbench.sandbox.controller import Child, opened
from selectivbench.sandbox.launch import Launcher
from selectivbench.sandbox.orders import Order
from selectivbench.submission import Submission
from selectivbench.times import OWN, WHAT, Measured, Timing, stem_of

__all__ = ["OWN", "WHAT", "CannotTime", "Measured", "Timing", "TimingJob", "time_layers"]

DEADLINE = 600.0
MOST_DECODED = 64
"""Steps of one round of decoding, and no more than half the length: it goes from just before the
length to just after it, so that what a step costs is that of the length itself."""
SYMBOLS = 8
"""Inputs and classes of the network around the layer; they are not timed."""


class CannotTime(SelectivError):
    """The layer has no way to do what was to be timed; the message says why."""


@dataclass(frozen=True)
class TimingJob:
    """One case: what to time, of which submission, at which length."""

    submission: Submission
    profile: Profile
    device: machine.Device
    what: str
    length: int
    mode: machine.Mode = machine.PLAIN

    @property
    def batch(self) -> int:
        """Sequences at once."""
        return self.profile.timing.batch(self.what, self.length)

    @property
    def device_class(self) -> str:
        """What times are compared within."""
        return self.mode.device_class(self.device)

    @property
    def key(self) -> str:
        """24 hex digits of everything that could change the time, the machine apart."""
        facts = {"source": self.submission.sha256, "what": self.what, "length": self.length}
        facts |= {"size": asdict(self.profile.default_plan.model), "batch": self.batch}
        facts |= {"device": self.device_class, "versions": dict(machine.versions())}
        return digest(facts)

    @property
    def stem(self) -> str:
        """File name of its result without the ending."""
        return stem_of(self.submission.id, self.what, self.length, self.profile.name, self.key)

    def order(self, source: str, origin: str, kind: str) -> Order:
        """What a child is told to build."""
        plan = self.profile.default_plan
        return Order(
            entry=self.submission.id,
            origin=origin,
            source=source,
            kind=kind,
            size=plan.model,
            budget=plan.budget,
            encoding=Encoding("one_hot", SYMBOLS, SYMBOLS),
            n_classes=SYMBOLS,
            max_length=self.length + MOST_DECODED,
            init_seed=0,
            device=self.device.kind,
            threads=1,
            folder="",
            sharers=self.device.sharers,
        )


def time_layers(job: TimingJob, launcher: Launcher) -> Timing:
    """Time a submission's layer and the yardsticks in turns.

    ChildError where a child fails, CannotTime where the submission's layer has no way to decode.
    """
    source = job.submission
    own = job.order(source.source, str(source.path.absolute()), source.kind)
    with ExitStack() as stack:
        first = _Timed(stack.enter_context(opened(launcher, own)), job, own.kind)
        workers = {OWN: first}
        for name in yardsticks.NAMES:
            order = job.order(yardsticks.source(name), f"{name.lower()}.py", "mixer")
            workers[name] = _Timed(stack.enter_context(opened(launcher, order)), job, "mixer")
        for turn in range(job.profile.timing.rounds):
            names = list(workers)
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                workers[name].take_turn()
    return Timing(
        entry=source.id,
        source_sha256=source.sha256,
        profile=job.profile.name,
        device_class=job.device_class,
        what=job.what,
        length=job.length,
        batch=job.batch,
        key=job.key,
        layers={name: worker.measured for name, worker in workers.items()},
        declared_state=first.child.built.state_size,
        isolation=launcher.level,
        environment=machine.versions(),
        machine=machine.describe(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


class _Timed:
    """One child with its workload, warmed up and calibrated; collects its rounds."""

    def __init__(self, child: Child, job: TimingJob, kind: str) -> None:
        self.child = child
        child.enter("timing", DEADLINE)
        width = SYMBOLS if kind == "model" else job.profile.default_plan.model.d_model
        load = {"what": job.what, "length": job.length, "batch": job.batch, "width": width}
        load["precision"] = job.mode.precision
        cannot = child.begin_workload(load)
        if cannot:
            raise CannotTime(f"{job.submission.id} cannot {job.what}: {cannot}.")
        self.measured = Measured((), (), self._calibrated(job))

    def take_turn(self) -> None:
        """One round; what one repeat took is kept."""
        before, repeats = self.measured, self.measured.repeats
        self.child.refill(repeats)
        began = time.perf_counter()
        work = self.child.work(repeats)
        took = time.perf_counter() - began
        self.measured = Measured(
            seconds=(*before.seconds, took / repeats),
            busy=(*before.busy, work.busy / repeats),
            repeats=repeats,
            memory=work.memory,
            state_bytes=work.state_bytes,
        )

    def _calibrated(self, job: TimingJob) -> int:
        """Repeats of a round, from the second of two (the first may compile or allocate)."""
        most = min(MOST_DECODED, job.length // 2) if job.what == "decode" else 1_000
        for _ in range(2):
            self.child.refill(1)
            once = self.child.work(1).busy
        return max(1, min(most, math.ceil(job.profile.timing.least / max(once, 1e-6))))
