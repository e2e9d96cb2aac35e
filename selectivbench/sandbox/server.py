"""The fork server: a process that has imported torch (and fla) and makes children by forking.

Run as ``python -P -m selectivbench.sandbox.server FD DEVICE PACKAGE,PACKAGE LEVEL``. The controller
sends one byte with two sockets for each child that it wants, the child's channel and its warden's
lifeline; the server answers ``started``. It holds no data, runs no parallel region, and goes when
the controller is gone, after the wardens have cleaned up.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
from contextlib import suppress

from selectivbench.errors import ChildCrashed
from selectivbench.sandbox import paths, syscalls, warden
from selectivbench.sandbox.child import serve
from selectivbench.sandbox.namespaces import open_way
from selectivbench.sandbox.preload import preload
from selectivbench.sandbox.protocol import Channel
from selectivbench.sandbox.watching import kill_all_below

CLEANING_UP = 3_000
"""Milliseconds that wardens have when the controller is gone."""


def main(argv: list[str]) -> int:
    """Serve until the controller closes its end."""
    control, level = socket.socket(fileno=int(argv[1])), int(argv[4])
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)  # of what a killed warden leaves behind
    if os.geteuid() == 0:
        with suppress(OSError):  # then children keep this user, and the header says so
            open_way(paths.needed())
    preload(frozenset(argv[3].split(",")), argv[2])
    gc.freeze()  # a collection in a child would copy every page that it looks at
    with suppress(ChildCrashed):  # the controller went away while it was being told something
        _serve(control, level)
    return 0


def _serve(control: socket.socket, level: int) -> None:
    wardens: dict[int, int] = {}  # pidfd -> pid
    reply = Channel(control)
    reply.send("ready")
    poll = select.poll()
    poll.register(control, select.POLLIN)
    try:
        while True:
            for descriptor, _ in poll.poll():
                if descriptor != control.fileno():
                    poll.unregister(descriptor)
                    _reap(wardens, descriptor)
                    continue
                data, sockets, *_ = socket.recv_fds(control, 1, 2)
                if not data:
                    return
                pid = _fork(control, sockets, level)
                pidfd = os.pidfd_open(pid)
                wardens[pidfd] = pid
                poll.register(pidfd, select.POLLIN)
                reply.send("started", {"pid": pid})
    finally:
        _wait_for(wardens)


def _fork(control: socket.socket, descriptors: list[int], level: int) -> int:
    pid = os.fork()
    if pid:
        for descriptor in descriptors:
            os.close(descriptor)
        return pid
    try:
        warden.die_with_parent()
        control.close()
        channel, lifeline = (socket.socket(fileno=descriptor) for descriptor in descriptors)
        warden.hold(channel, lifeline, level, serve)
    finally:
        os._exit(0)


def _reap(wardens: dict[int, int], pidfd: int) -> None:
    os.close(pidfd)
    os.waitpid(wardens.pop(pidfd), 0)
    if not wardens:
        kill_all_below()


def _wait_for(wardens: dict[int, int]) -> None:
    for pidfd, pid in wardens.items():
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        if not poll.poll(CLEANING_UP):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    os._exit(main(sys.argv))  # not a word at the end: frozen objects look like leaks
