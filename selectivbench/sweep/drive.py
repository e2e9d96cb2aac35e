"""The driver: keeps an engine busy, writes down what comes back, tries lost cells again.

Placement, queues and the detection of failures are the engine's; what is left is this loop. Only so
many cells are out at a time as the engine has room for, so a million of them take no memory.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from selectivbench.sweep.folder import Folder, Log
from selectivbench.sweep.work import Report, Work

RETRIES = 3
"""How often a cell whose worker died is given to another one."""
LOST = "lost"
"""What the log says of a cell whose worker or node died."""


@dataclass(frozen=True)
class Outcome:
    """What came of one submission to an engine: a report, or the cause for which it was lost."""

    work: Work
    report: Report | None
    cause: str = ""


class Engine(Protocol):
    """Runs work somewhere else."""

    def room(self) -> int:
        """How many more cells it takes now."""

    def submit(self, work: Work) -> None:
        """Take one cell."""

    def wait(self) -> tuple[Outcome, ...]:
        """What has ended since the last call: at least one, or nothing after a second or so."""

    def close(self) -> None:
        """End every process that was started; cells that run are lost."""


@dataclass
class Tally:
    """Counts of one run of the driver, as they stand."""

    done: int = 0
    failed: int = 0
    lost: int = 0
    """Submissions whose worker or node died; the same cell may be counted again."""
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Since the driver began."""
        return time.monotonic() - self.began


def drive(
    cells: Iterator[Work],
    engine: Engine,
    folder: Folder,
    retries: int = RETRIES,
    tell: Callable[[Tally], None] = lambda _: None,
) -> Tally:
    """Run every cell once, on whatever the engine has; lost ones again, up to ``retries`` times.

    Records are in the folder when this returns. The engine stays open: it is the caller's.
    """
    with folder.driven() as log:
        return _Driver(engine, folder, log, retries, tell).run(cells)


class _Driver:
    def __init__(
        self,
        engine: Engine,
        folder: Folder,
        log: Log,
        retries: int,
        tell: Callable[[Tally], None],
    ) -> None:
        self.engine, self.folder, self.log = engine, folder, log
        self.retries, self.tell = retries, tell
        self.tally = Tally()
        self.out, self.over = 0, False
        self.losses: dict[str, int] = {}
        self.again: deque[Work] = deque()

    def run(self, cells: Iterator[Work]) -> Tally:
        while self._fill(cells):
            for outcome in self.engine.wait():
                self.out -= 1
                self._settle(outcome)
            self.tell(self.tally)
        return self.tally

    def _fill(self, cells: Iterator[Work]) -> bool:
        """Hand out what there is room for; False when nothing is out and nothing is left."""
        for _ in range(self.engine.room()):
            work = self.again.popleft() if self.again else next(cells, None)
            if work is None:
                self.over = True
                break
            self.engine.submit(work)
            self.out += 1
        return self.out > 0 or bool(self.again) or not self.over

    def _settle(self, outcome: Outcome) -> None:
        key, report = outcome.work.key, outcome.report
        if report is None:
            self._lose(outcome)
            return
        if report.text:
            self.folder.write(key, report.text)
        self.tally.done += report.done
        self.tally.failed += not report.done
        self.log.note(key, report.status, cause=report.cause, seconds=round(report.seconds, 3))

    def _lose(self, outcome: Outcome) -> None:
        key = outcome.work.key
        self.tally.lost += 1
        self.losses[key] = self.losses.get(key, 0) + 1
        self.log.note(key, LOST, cause=outcome.cause)
        if self.losses[key] <= self.retries:
            self.again.append(outcome.work)
        else:
            self.tally.failed += 1
