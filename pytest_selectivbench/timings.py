"""Timing cases, ``mamba.py::timing-train[T512]``: pytest-benchmark's report, and a file of our own."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, cast

import pytest

from pytest_selectivbench.bench import LAB
from pytest_selectivbench.items import SubmissionItem
from selectivbench.errors import SelectivError
from selectivbench.times import Timing
from selectivbench.timing import CannotTime, TimingJob
from selectivbench.yardsticks import NAMES

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

PROPERTY = "selectivbench-timing"
"""Name of the user property that carries a timing's file stem to the summary."""


class Replay:
    """A round for pytest-benchmark to repeat, and a clock that shows how long it was.

    Layers that take turns cannot be repeated by the fixture one after another. So the first round
    measures all of them, and each then lets go by what the controller's clock saw.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._left: list[float] = []
        self.timing: Timing | None = None

    def clock(self) -> float:
        """Seconds, for the fixture."""
        return self._now

    def round(self, measure: Callable[[], Timing]) -> None:
        """One round of the submission's layer."""
        if self.timing is None:
            self.timing = measure()
            self._left = list(reversed(self.timing.own.seconds))
        if self._left:  # a profiler of the fixture's repeats more
            self._now += self._left.pop()


class TimingCase(SubmissionItem):
    """One workload of one submission at one length."""

    job: TimingJob
    replay: Replay
    sentences = (SelectivError,)

    @classmethod
    def of(cls, parent: pytest.Collector, job: TimingJob) -> TimingCase:
        """With its id, and its group in pytest-benchmark's report.

        The fixture is asked for openly, so that ``--benchmark-only`` and ``--benchmark-skip`` see
        it; not in xdist's workers, where it measures nothing and warns.
        """
        config = parent.config
        fixture = config.pluginmanager.hasplugin("benchmark")
        fixture = fixture and not hasattr(config, "workerinput")
        item: TimingCase = cls.from_parent(
            parent,
            name=f"timing-{job.what}[T{job.length}]",
            callobj=time_for_report if fixture else time_alone,
        )
        item.submission, item.job, item.replay = job.submission, job, Replay()
        if fixture:
            group = f"{job.what}, T = {job.length}"
            item.add_marker(pytest.mark.benchmark(group=group, timer=item.replay.clock))
        return item

    def measure(self) -> Timing:
        """Time the layers, and keep the result in the records folder."""
        return self.config.stash[LAB].timing(self.job)


def time_alone(request: pytest.FixtureRequest) -> None:
    """Without pytest-benchmark nothing is lost: the result is a file."""
    case = cast("TimingCase", request.node)
    try:
        case.measure()
    except CannotTime as reason:
        pytest.skip(str(reason))
    case.user_properties.append((PROPERTY, case.job.stem))


def time_for_report(request: pytest.FixtureRequest, benchmark: BenchmarkFixture) -> None:
    """The same, with every round in pytest-benchmark's report."""
    case = cast("TimingCase", request.node)
    benchmark.name = f"{case.job.submission.id} {case.job.what} T{case.job.length}"
    rounds = case.job.profile.timing.rounds
    try:
        benchmark.pedantic(  # type: ignore[no-untyped-call]
            case.replay.round, args=(case.measure,), rounds=rounds
        )
    except CannotTime as reason:
        pytest.skip(str(reason))
    assert case.replay.timing is not None, "its first round measures"
    describe(benchmark, case.replay.timing)
    case.user_properties.append((PROPERTY, case.job.stem))


def describe(benchmark: BenchmarkFixture, timing: Timing) -> None:
    """Put what the time stands for beside it in the benchmark's report."""
    benchmark.extra_info.update(
        entry=timing.entry,
        task=f"timing-{timing.what}",
        length=timing.length,
        batch=timing.batch,
        profile=timing.profile,
        device_class=timing.device_class,
        verdict="timed",
        record=timing.key,
        tokens_per_second=timing.tokens_per_second,
        peak_memory=timing.own.memory,
        state_bytes=timing.own.state_bytes,
        busy_seconds=median(timing.own.busy),
        **{f"times_{name.lower()}": timing.ratio(name) for name in NAMES},
    )
