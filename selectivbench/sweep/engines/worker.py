"""The process of one slot of the local engine: cells come in on a line, reports go out on it."""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing.connection import Connection

from selectivbench.sandbox.syscalls import PR_SET_PDEATHSIG, prctl
from selectivbench.sweep.work import execute


def main(line: int, core: int, root: str, driver: int) -> None:
    """Serve until the driver closes the line. A driver that is killed takes its workers along."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != driver:  # it was killed before this process could ask to be told
        return
    os.sched_setaffinity(0, {core})
    connection = Connection(line)
    while True:
        try:
            work = connection.recv()
        except EOFError:
            return
        connection.send(execute(work, root))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
