"""Watching one child: its output's tail, its memory, its end, and the end of all it started."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

from selectivbench.sandbox import limits

TAIL = 64 * 1024
"""Bytes of output that are kept, the last ones."""
PIPE = 1 << 20
"""Bytes that the pipe holds, so that much output needs few turns."""
LOOK = 0.5
"""Seconds between two looks at the memory."""
PATIENCE = 5.0
"""Seconds to kill descendants that keep starting others."""


class Watch:
    """From a child's start to the end of its last descendant."""

    def __init__(self, child: int, lifeline: socket.socket, output: int) -> None:
        self._child, self._lifeline, self._output = child, lifeline, output
        self._allowed = limits.resident(child) + limits.memory_allowance()
        self._peak, self._tail, self._cause = 0, b"", ""

    def until_all_are_gone(self) -> dict[str, object]:
        """Wait for the child's end or the controller's word, kill what is left, and report."""
        pidfd = os.pidfd_open(self._child)
        poll = select.poll()
        for descriptor in (pidfd, self._lifeline.fileno(), self._output):
            poll.register(descriptor, select.POLLIN)
        os.set_blocking(self._output, False)
        fcntl.fcntl(self._output, fcntl.F_SETPIPE_SZ, PIPE)
        next_look = 0.0
        while not self._over(poll, pidfd):
            if time.monotonic() >= next_look:
                self._look()
                next_look = time.monotonic() + LOOK
        os.close(pidfd)
        return self._ended()

    def _over(self, poll: select.poll, pidfd: int) -> bool:
        """One round of listening; whether the child ended, was too large, or is not wanted."""
        ready = {descriptor for descriptor, _ in poll.poll(LOOK * 1000)}
        if self._output in ready and not self._drain():
            poll.unregister(self._output)  # nobody holds its other end
        return bool(self._cause or ready & {pidfd, self._lifeline.fileno()})

    def _drain(self, rounds: int = 16) -> bool:
        """Take what was printed, but not for ever; False at the stream's end."""
        with suppress(BlockingIOError):
            for _ in range(rounds):
                data = os.read(self._output, PIPE)
                if not data:
                    return False
                self._tail = data[-TAIL:] if len(data) >= TAIL else (self._tail + data)[-TAIL:]
        return True

    def _look(self) -> None:
        self._peak = max(self._peak, limits.peak(self._child))
        below = descendants(self._child)
        own = limits.resident(self._child) + limits.unnamed([self._child, *below])
        held = own + sum(limits.resident(pid) for pid in below)
        # What descendants share with the child is counted again in each, so their sum alone tells
        # little: it counts where the machine is really short.
        if own > self._allowed or (held > self._allowed and limits.is_scarce()):
            self._cause = f"out of memory: {held >> 20} MiB, allowed: {self._allowed >> 20}"

    def _ended(self) -> dict[str, object]:
        self._peak = max(self._peak, limits.peak(self._child))
        with suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGKILL)
        _, status, usage = os.wait4(self._child, 0)
        kill_all_below()
        self._drain()  # what the pipe still held
        return {
            "status": os.waitstatus_to_exitcode(status),
            "peak_memory": max(self._peak, usage.ru_maxrss * 1024),
            "cpu": usage.ru_utime + usage.ru_stime,
            "output": self._tail.decode(errors="replace"),
            "cause": self._cause,
        }


def kill_all_below() -> None:
    """Kill and reap every descendant of this process; orphans must come to it (subreaper).

    They are stopped first, so that none starts another while the list is read.
    """
    deadline = time.monotonic() + PATIENCE
    while (found := descendants(os.getpid())) and time.monotonic() < deadline:
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        time.sleep(0.002)  # the dead become children of this process, and can be reaped
        _reap()
    _reap()


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def descendants(root: int) -> list[int]:
    """Processes that ``root`` started, directly or not, and that have not been reaped."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal() and (parent := _parent(entry)):
            children.setdefault(parent, []).append(int(entry))
    found, waiting = [], [root]
    while waiting:
        inner = children.get(waiting.pop(), [])
        found += inner
        waiting += inner
    return found


def _parent(pid: str) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0  # it has just ended
