"""Cells in processes of this machine: one pinned to each core, one thread each.

A worker lives on from cell to cell, since an interpreter with numpy takes a second to start; one that
dies takes down the cell it holds and nothing else.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

from selectivbench.machine import VISIBLE, gpus_of
from selectivbench.sweep.drive import Outcome
from selectivbench.sweep.work import Work

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    line: Connection
    work: Work | None = None

    def end(self) -> int:
        """Kill it, if it lives, and say how it ended."""
        self.process.kill()
        self.line.close()
        return self.process.wait()


class LocalEngine:
    """``workers`` processes, by default one for each core that this process may use."""

    def __init__(self, root: Path, workers: int | None = None) -> None:
        self._root = root.absolute()
        self._cores = sorted(os.sched_getaffinity(0))
        slots = range(workers or len(self._cores))
        self._slots: dict[int, _Worker | None] = dict.fromkeys(slots)

    def room(self) -> int:
        """Slots whose worker is idle, or not started yet."""
        return sum(_idle(worker) for worker in self._slots.values())

    def submit(self, work: Work) -> None:
        """Give a cell to an idle worker, started if need be."""
        slot = next(slot for slot, worker in self._slots.items() if _idle(worker))
        worker = self._slots[slot] or self._start(slot)
        self._slots[slot] = worker
        worker.work = work
        with suppress(BrokenPipeError, ConnectionResetError):
            worker.line.send(work)  # one that died while idle is noticed by wait()

    def wait(self) -> tuple[Outcome, ...]:
        """Block until a worker answers or dies."""
        busy = {worker.line: slot for slot, worker in self._slots.items() if worker and worker.work}
        return tuple(self._outcome(busy[line]) for line in wait(list(busy)) if line in busy)

    def close(self) -> None:
        """End every worker, and with it all that its cell had started."""
        for slot, worker in self._slots.items():
            if worker is not None:
                worker.end()
                self._slots[slot] = None

    def _outcome(self, slot: int) -> Outcome:
        worker = self._slots[slot]
        assert worker is not None
        assert worker.work is not None
        work, worker.work = worker.work, None
        try:
            return Outcome(work, worker.line.recv())
        except (EOFError, ConnectionResetError):
            self._slots[slot] = None
            return Outcome(work, None, _death(worker.end()))

    def _start(self, slot: int) -> _Worker:
        ours, theirs = socket.socketpair()
        core = self._cores[slot % len(self._cores)]
        with theirs:
            command = [sys.executable, "-m", "selectivbench.sweep.engines.worker"]
            process = subprocess.Popen(
                [*command, str(theirs.fileno()), str(core), str(self._root), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, **ONE_THREAD, **_gpu_of(slot)},
                start_new_session=True,  # Ctrl-C is the driver's to handle
            )
        return _Worker(process, Connection(ours.detach()))


def _idle(worker: _Worker | None) -> bool:
    return worker is None or worker.work is None


def _gpu_of(slot: int) -> dict[str, str]:
    """Workers take turns over the GPUs, where there are several and nobody has chosen."""
    count = len(gpus_of())
    if count < 2 or VISIBLE in os.environ:
        return {}
    return {VISIBLE: str(slot % count)}


def _death(code: int) -> str:
    if code < 0:
        return f"its worker was ended by {signal.Signals(-code).name}"
    return f"its worker ended with code {code}"
