"""Cells as tasks of a Ray cluster, one task a cell. The only module that imports ray.

Ray places tasks, shares GPUs, and notices dead workers and nodes. Its own retries are off: a loss
comes back as an outcome, so the sweep's log has it and the driver decides.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RaySystemError

from selectivbench.errors import SelectivError, UsageError, explain
from selectivbench.sweep.drive import Outcome
from selectivbench.sweep.engines import Wish
from selectivbench.sweep.work import Report, Work, execute

AHEAD = 2
"""Tasks out for each one that can run, so that a worker never waits for the driver."""
LOOK_AGAIN = 5.0
"""Seconds after which the size of the cluster is asked for again."""
PATIENCE = 1.0
"""Seconds that one call of ``wait`` blocks at most."""


class RayEngine:
    """Connects to a cluster, or starts one on this machine."""

    def __init__(self, root: Path, wish: Wish) -> None:
        self._root = str(root.absolute()) if wish.shared else None
        self._wish = wish
        self._out: dict[Any, Work] = {}
        _connect(wish)
        self._capacity, self._looked = self._slots(), time.monotonic()
        if not self._capacity:
            ray.shutdown()
            got = f"none with room for one cell of {wish.cpus:g} cpu and {wish.gpus:g} gpu"
            raise UsageError(explain("Ray nodes", got, "at least one", "see --cpus and --gpus"))
        self._execute = ray.remote(
            num_cpus=wish.cpus, num_gpus=wish.gpus, max_retries=0, max_calls=0
        )(execute)

    def room(self) -> int:
        """As many as keep every slot of the cluster busy with one more waiting."""
        if time.monotonic() - self._looked > LOOK_AGAIN:
            self._capacity, self._looked = self._slots(), time.monotonic()
        return max(0, AHEAD * self._capacity - len(self._out))

    def submit(self, work: Work) -> None:
        """Queue one cell."""
        self._out[self._execute.remote(work, self._root)] = work

    def wait(self) -> tuple[Outcome, ...]:
        """Whatever has ended, within about a second."""
        if not self._out:
            time.sleep(PATIENCE)  # no node is up at the moment
            return ()
        try:
            return tuple(self._outcome(reference) for reference in self._ended())
        except (RaySystemError, ConnectionError) as error:
            raise SelectivError(
                f"the Ray cluster is gone ({_first_line(error)}); start it, then resume the sweep."
            ) from error

    def close(self) -> None:
        """Leave the cluster; Ray ends the tasks of a driver that has left."""
        ray.shutdown()

    def _ended(self) -> list[Any]:
        """References of what has ended; ``ray.wait`` gives no more than it is asked for."""
        ready, rest = ray.wait(list(self._out), num_returns=1, timeout=PATIENCE)
        if ready and rest:
            ready += ray.wait(rest, num_returns=len(rest), timeout=0)[0]
        return list(ready)

    def _outcome(self, reference: Any) -> Outcome:
        work = self._out.pop(reference)
        try:
            report: Report = ray.get(reference)
        except RaySystemError:
            raise
        except RayError as error:
            return Outcome(work, None, f"{type(error).__name__}: {_first_line(error)}")
        return Outcome(work, report)

    def _slots(self) -> int:
        """Cells that the nodes which are alive can run at once."""
        has = ray.cluster_resources()
        slots = int(has.get("CPU", 0) / self._wish.cpus) if self._wish.cpus else 1 << 20
        if self._wish.gpus:
            slots = min(slots, int(has.get("GPU", 0) / self._wish.gpus))
        return min(slots, self._wish.workers or slots)


def _connect(wish: Wish) -> None:
    try:
        ray.init(address=wish.address, log_to_driver=False, include_dashboard=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        got = f"{wish.address} ({_first_line(error)})"
        raise UsageError(explain("Ray cluster", got, "the address of one that runs")) from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
