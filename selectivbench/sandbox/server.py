"""The fork server: a process that has imported torch (and fla) and makes children by forking.

Run as ``python -m selectivbench.sandbox.server FD DEVICE PACKAGE,PACKAGE``. The controller sends one
byte with a socket for each child that it wants; the server answers ``started`` with the process id,
and ``exited`` with its end. It holds no data, runs no parallel region, and when the controller is
gone it kills every child and goes too.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from contextlib import suppress

from selectivbench.errors import ChildCrashed
from selectivbench.sandbox.child import serve
from selectivbench.sandbox.preload import preload
from selectivbench.sandbox.protocol import Channel


def main(argv: list[str]) -> int:
    """Serve until the controller closes its end."""
    control = socket.socket(fileno=int(argv[1]))
    preload(frozenset(argv[3].split(",")), argv[2])
    children: dict[int, int] = {}  # pidfd -> pid
    try:
        _serve(control, children)
    except ChildCrashed:
        pass  # the controller went away while it was being told something
    finally:
        _kill_all(children)
    return 0


def _serve(control: socket.socket, children: dict[int, int]) -> None:
    reply = Channel(control)
    reply.send("ready")
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor != control.fileno():
                poll.unregister(descriptor)
                _reap(reply, children.pop(descriptor), descriptor)
                continue
            data, sockets, *_ = socket.recv_fds(control, 1, 1)
            if not data:
                return
            pid = _fork(control, sockets[0])
            pidfd = os.pidfd_open(pid)
            children[pidfd] = pid
            poll.register(pidfd, select.POLLIN)
            reply.send("started", {"pid": pid})


def _fork(control: socket.socket, descriptor: int) -> int:
    pid = os.fork()
    if pid:
        os.close(descriptor)
        return pid
    try:
        os.setsid()  # one group for all that the submission starts, so that one signal ends it
        control.close()
        serve(Channel(socket.socket(fileno=descriptor)))
    finally:
        os._exit(0)  # no atexit, no flush of buffers inherited from the server


def _reap(reply: Channel, pid: int, pidfd: int) -> None:
    os.close(pidfd)
    _, status, usage = os.wait4(pid, 0)
    meta = {
        "pid": pid,
        "status": os.waitstatus_to_exitcode(status),
        "peak_memory": usage.ru_maxrss * 1024,
        "cpu": usage.ru_utime + usage.ru_stime,
    }
    reply.send("exited", meta)


def _kill_all(children: dict[int, int]) -> None:
    for pid in children.values():
        for kill in (os.killpg, os.kill):  # a child that was just forked leads no group yet
            with suppress(ProcessLookupError):  # it had just ended
                kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
