"""The driver on a machine that is not there: its cells end by a clock that is only counted.

What is real: the driver, its log, the records it writes. What is not: the cells, and the wall-clock
that they and the failures of workers take.
"""

from __future__ import annotations

import heapq
import json
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from selectivbench.record import digest
from selectivbench.seeds import Stream
from selectivbench.sweep.drive import Outcome, Tally, drive
from selectivbench.sweep.folder import Folder
from selectivbench.sweep.work import Report, Work

SPREAD = 0.1
"""Standard deviation of a cell's time around its estimate, on a log scale."""


@dataclass(frozen=True)
class Timed:
    """A cell of which nothing but its time is known."""

    number: int
    seconds: float

    @property
    def key(self) -> str:
        """By its number."""
        return digest({"timed": self.number})

    def run(self, scratch: Path) -> str:
        """Never: the simulated engine only counts its time."""
        raise NotImplementedError(f"cell {self.number} is simulated; {scratch} stays empty")


@dataclass(frozen=True)
class Machines:
    """What is simulated: slots, nodes of so many slots each, and how often things go wrong.

    overhead: seconds that a slot loses between two cells. worker_loss: chance that a cell's worker
    dies. node_loss: chance a cell that its whole node dies with it, and is back after ``repair``
    seconds.
    """

    slots: int
    slots_a_node: int = 8
    overhead: float = 5.0
    worker_loss: float = 0.0
    node_loss: float = 0.0
    repair: float = 600.0


class SimulatedEngine:
    """An engine whose cells take no time. Earliest end first, as a real cluster would report them."""

    def __init__(self, machines: Machines, stream: Stream) -> None:
        self.machines, self._rng = machines, stream.rng()
        self.now, self.busy = 0.0, 0.0
        self._free: deque[int] = deque(range(machines.slots))
        self._ends: list[tuple[float, int, str]] = []
        self._held: dict[int, Work] = {}
        self._gone: dict[int, float] = {}

    def room(self) -> int:
        """Slots that nothing runs on."""
        return len(self._free)

    def submit(self, work: Work) -> None:
        """Draw how the cell will end, and when."""
        assert isinstance(work, Timed)
        slot = self._free.popleft()
        seconds = work.seconds * float(np.exp(SPREAD * self._rng.standard_normal()))
        fate = float(self._rng.random())
        machines = self.machines
        if fate < machines.node_loss:
            end, how = seconds * float(self._rng.random()), "its node died"
        elif fate < machines.node_loss + machines.worker_loss:
            end, how = seconds * float(self._rng.random()), "its worker died"
        else:
            end, how = seconds, ""
        self._held[slot] = work
        self.busy += seconds if not how else 0.0
        heapq.heappush(self._ends, (self.now + machines.overhead + end, slot, how))

    def wait(self) -> tuple[Outcome, ...]:
        """Move the clock to the next thing that happens."""
        self.now, slot, how = heapq.heappop(self._ends)
        if slot in self._gone:  # its node is up again
            del self._gone[slot]
            self._free.append(slot)
            return ()
        if how == "its node died":
            return self._lose_node(slot)
        return (self._end(slot, how),)

    def close(self) -> None:
        """Nothing was started."""

    def _end(self, slot: int, how: str) -> Outcome:
        work = self._held.pop(slot)
        self._free.append(slot)
        if how:
            return Outcome(work, None, how)
        text = json.dumps({"status": "pass", "key": work.key}) + "\n"
        return Outcome(work, Report(work.key, "pass", text=text))

    def _lose_node(self, slot: int) -> tuple[Outcome, ...]:
        """All cells of the node are lost, and its slots are away until it is back."""
        size = self.machines.slots_a_node
        first = slot // size * size
        node = range(first, min(first + size, self.machines.slots))
        lost = tuple(
            Outcome(self._held.pop(s), None, "its node died") for s in node if s in self._held
        )
        self._ends = [entry for entry in self._ends if entry[1] not in node]
        heapq.heapify(self._ends)
        self._free = deque(s for s in self._free if s not in node)
        back = self.now + self.machines.repair
        for s in node:
            self._gone[s] = back
            heapq.heappush(self._ends, (back, s, ""))
        return lost


@dataclass(frozen=True)
class Simulation:
    """What came out: hours of the simulated clock, use of the slots, the driver's real time a cell."""

    machines: Machines
    cells: int
    tally: Tally
    hours: float
    use: float
    """Share of all slot hours that went into cells that came through."""
    driver_ms: float
    """Real milliseconds of the driver for each cell: choosing, writing its record and its log line."""


def simulate(
    seconds: Sequence[float], machines: Machines, folder: Path, seed: int = 1
) -> Simulation:
    """Run cells of these times through the driver, longest first as ``sweep run`` does."""
    engine = SimulatedEngine(machines, Stream.named("simulated engine", seed))
    target = Folder(folder)
    target.prepare({"simulated": len(seconds)})
    began = time.monotonic()
    tally = drive(_longest_first(seconds), engine, target, retries=20)
    took = time.monotonic() - began
    return Simulation(
        machines=machines,
        cells=len(seconds),
        tally=tally,
        hours=engine.now / 3600,
        use=engine.busy / (engine.now * machines.slots),
        driver_ms=1000 * took / len(seconds),
    )


def _longest_first(seconds: Sequence[float]) -> Iterator[Work]:
    """So that no long cell is left alone at the end."""
    order = np.argsort(-np.asarray(seconds), kind="stable")
    return (Timed(int(i), float(seconds[i])) for i in order)
