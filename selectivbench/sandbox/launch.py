"""Ways to get a child process: forked from a server, a fresh interpreter, or none (a thread)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from itertools import count
from typing import Any, Protocol

from selectivbench.errors import ChildCrashed, ChildError
from selectivbench.sandbox.environment import environment
from selectivbench.sandbox.exits import UNWATCHED, Exit, exit_of
from selectivbench.sandbox.levels import Isolation
from selectivbench.sandbox.probe import ANYBODY
from selectivbench.sandbox.protocol import Channel

__all__ = ["Exit", "ForkServer", "FreshInterpreters", "InProcess", "Launcher", "environment"]

LAST_REPORT = 10.0
"""Seconds that a warden has to kill everything and to say how it went."""
PROCESS = Isolation(1)
IDS = 256
"""User ids of one controller's children, used in turn; the largest process id leaves room for them."""


class Process(Protocol):
    """A running child as the controller sees it; ``user`` is the id that it is to change to."""

    channel: Channel
    user: int | None

    def end(self) -> Exit:
        """Kill it and everything it started, if it still runs, and say how it ended."""


class Launcher(Protocol):
    """Something that starts children; ``close`` ends what it keeps running for them."""

    isolation: Isolation

    @property
    def level(self) -> str:
        """The name of the isolation level."""

    def start(self) -> Process:
        """A new child that waits for its order."""

    def close(self) -> None:
        """Let go of everything."""


class _Launches:
    """What launchers of processes share: their isolation, and a user id for each child."""

    def __init__(self, device: str, packages: frozenset[str], isolation: Isolation) -> None:
        self._device, self._packages, self.isolation = device, packages, isolation
        self._numbers = count()

    @property
    def level(self) -> str:
        """The name of the isolation level."""
        return self.isolation.name

    def _user(self) -> int | None:
        """An id that no other child of this machine has now, or None where it keeps its own."""
        if not self.isolation.user:
            return None
        return ANYBODY + os.getpid() * IDS + next(self._numbers) % IDS

    def _arguments(self) -> list[str]:
        return [self._device, ",".join(sorted(self._packages)), str(self.isolation.level)]


class ForkServer(_Launches):
    """Children forked from one server; the first start waits for its imports."""

    def __init__(
        self, device: str, packages: frozenset[str], isolation: Isolation = PROCESS
    ) -> None:
        super().__init__(device, packages, isolation)
        self._ready = False
        self._latest: _Watched | None = None
        self._spawn()

    def start(self) -> Process:
        """A forked child; a few milliseconds after the first. A server that died is replaced."""
        if self._popen.poll() is not None:
            self._control.close()
            self._spawn()
        if not self._ready:
            self._expect("ready")
            self._ready = True
        ours, theirs = socket.socketpair()
        lifeline, far_end = socket.socketpair()
        socket.send_fds(self._control.sock, [b"f"], [theirs.fileno(), far_end.fileno()])
        theirs.close()
        far_end.close()
        pid = self._expect("started")["pid"]
        self._latest = _Watched(Channel(ours), Channel(lifeline), self._user(), pid)
        return self._latest

    def close(self) -> None:
        """The server ends at the end of its control stream, its latest child before it."""
        if self._latest is not None:
            self._latest.end()
        self._control.close()
        self._popen.wait()

    def _spawn(self) -> None:
        ours, theirs = socket.socketpair()
        self._popen = _spawned("server", [theirs], self._arguments())
        self._control, self._ready = Channel(ours), False

    def _expect(self, kind: str) -> Mapping[str, Any]:
        try:
            frame = self._control.receive()
        except ChildCrashed as error:
            self._popen.wait()
            raise ChildCrashed("the fork server is gone.") from error
        if frame.kind != kind:
            raise ChildCrashed(f"the fork server said {frame.kind!r} instead of {kind!r}.")
        return frame.meta


class FreshInterpreters(_Launches):
    """Children with an interpreter each; the next one is always warming up."""

    def __init__(
        self, device: str, packages: frozenset[str], isolation: Isolation = PROCESS
    ) -> None:
        super().__init__(device, packages, isolation)
        self._next = self._spawn()

    def start(self) -> Process:
        """The child that was warmed up; another one starts at once."""
        child, self._next = self._next[1], self._spawn()
        return child

    def close(self) -> None:
        """End the child that waits for a case that will not come."""
        self._next[1].end()

    def _spawn(self) -> tuple[subprocess.Popen[bytes], Process]:
        ours, theirs = socket.socketpair()
        lifeline, far_end = socket.socketpair()
        popen = _spawned("fresh", [theirs, far_end], self._arguments())
        child = _Watched(Channel(ours), Channel(lifeline), self._user(), popen.pid, popen)
        return popen, child


class _Watched:
    """A child with its warden, at the other end of the lifeline."""

    def __init__(
        self,
        channel: Channel,
        lifeline: Channel,
        user: int | None,
        pid: int,
        popen: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self.channel, self._lifeline, self.user = channel, lifeline, user
        self._pid, self._popen = pid, popen

    def end(self) -> Exit:
        self.channel.close()
        try:
            self._lifeline.sock.shutdown(socket.SHUT_WR)  # what the warden is waiting for
            frame = self._lifeline.receive(time.monotonic() + LAST_REPORT)
            return exit_of(frame.meta)
        except (ChildError, OSError):
            return UNWATCHED
        finally:
            self._lifeline.close()
            if self._popen is not None:
                self._popen.wait()


class InProcess:
    """No isolation: the child is a thread here, for a debugger. It cannot be killed."""

    level = "none"
    isolation = Isolation(0)

    def __init__(self, device: str, packages: frozenset[str]) -> None:
        self._device, self._packages = device, packages

    def start(self) -> Process:
        """A thread that waits for its order."""
        from selectivbench.sandbox.child import serve
        from selectivbench.sandbox.preload import preload

        def served(channel: Channel) -> None:
            serve(channel)
            channel.close()  # as a process's end would

        preload(self._packages, self._device)
        ours, theirs = socket.socketpair()
        thread = threading.Thread(target=served, args=(Channel(theirs),), daemon=True)
        thread.start()
        return _Threaded(Channel(ours), thread)

    def close(self) -> None:
        """Nothing is kept."""


class _Threaded:
    def __init__(self, channel: Channel, thread: threading.Thread) -> None:
        self.channel, self._thread = channel, thread
        self.user: int | None = None

    def end(self) -> Exit:
        self.channel.close()
        self._thread.join(timeout=2)
        return Exit(0)


def _spawned(
    module: str, sockets: list[socket.socket], arguments: list[str]
) -> subprocess.Popen[bytes]:
    """A process of ours with some sockets, which are closed here.

    ``-P`` and the root folder: nothing beside a submission, or wherever a person stands, is imported.
    """
    numbers = [str(sock.fileno()) for sock in sockets]
    popen = subprocess.Popen(
        [sys.executable, "-P", "-m", f"selectivbench.sandbox.{module}", *numbers, *arguments],
        pass_fds=[sock.fileno() for sock in sockets],
        stdin=subprocess.DEVNULL,
        cwd="/",
        env=environment(),
        start_new_session=True,  # Ctrl-C is the controller's to handle
    )
    for sock in sockets:
        sock.close()
    return popen
