"""Ways to get a child process: forked from a server, a fresh interpreter, or none (a thread)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from selectivbench.errors import ChildCrashed
from selectivbench.sandbox.protocol import Channel

PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV")
PASSED_PREFIXES = ("CUDA_", "NUMBA_", "TRITON_", "XDG_", "OPENBLAS_")


@dataclass(frozen=True)
class Exit:
    """How a child ended: exit code (negative: a signal), bytes at its peak, CPU seconds."""

    code: int
    peak_memory: int | None = None
    cpu: float | None = None

    def __str__(self) -> str:
        if self.code < 0:
            names = {int(known): known.name for known in signal.Signals}  # not the real-time ones
            return f"it was ended by {names.get(-self.code, f'signal {-self.code}')}"
        return f"it left with exit code {self.code}"


class Process(Protocol):
    """A running child as the controller sees it."""

    channel: Channel

    def end(self) -> Exit:
        """Kill it and everything it started, if it still runs, and say how it ended."""


class Launcher(Protocol):
    """Something that starts children; ``close`` ends what it keeps running for them."""

    level: str

    def start(self) -> Process:
        """A new child that waits for its order."""

    def close(self) -> None:
        """Let go of everything."""


def environment() -> dict[str, str]:
    """The clean environment of a child: no keys, tokens or names; one passive OpenMP thread."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if key in PASSED_ON or key.startswith(PASSED_PREFIXES)
    }
    fixed = {
        "OMP_WAIT_POLICY": "PASSIVE",
        "NUMBA_THREADING_LAYER": "workqueue",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }
    return kept | fixed


class ForkServer:
    """Children forked from one server; the first start waits for its imports."""

    level = "process"

    def __init__(self, device: str, packages: frozenset[str]) -> None:
        self._device, self._packages = device, packages
        self._popen, self._control = _spawn("server", device, packages)
        self._ready = False

    def start(self) -> Process:
        """A forked child; a few milliseconds after the first. A server that died is replaced."""
        if self._popen.poll() is not None:
            self._control.close()
            self._popen, self._control = _spawn("server", self._device, self._packages)
            self._ready = False
        if not self._ready:
            self._expect("ready")
            self._ready = True
        ours, theirs = socket.socketpair()
        socket.send_fds(self._control.sock, [b"f"], [theirs.fileno()])
        theirs.close()
        return _Forked(self, Channel(ours), self._expect("started")["pid"])

    def exit_of(self, pid: int) -> Exit:
        """Wait for the server's word on how a child ended."""
        meta = self._expect("exited")
        assert meta["pid"] == pid, "one child at a time"
        return Exit(meta["status"], meta["peak_memory"], meta["cpu"])

    def close(self) -> None:
        """The server ends at the end of its control stream."""
        self._control.close()
        self._popen.wait()

    def _expect(self, kind: str) -> Mapping[str, int]:
        try:
            frame = self._control.receive()
        except ChildCrashed as error:
            self._popen.wait()
            raise ChildCrashed("the fork server is gone.") from error
        if frame.kind != kind:
            raise ChildCrashed(f"the fork server said {frame.kind!r} instead of {kind!r}.")
        return frame.meta


class _Forked:
    def __init__(self, server: ForkServer, channel: Channel, pid: int) -> None:
        self._server, self.channel, self._pid = server, channel, pid

    def end(self) -> Exit:
        self.channel.close()
        _kill_group(self._pid)
        return self._server.exit_of(self._pid)


class FreshInterpreters:
    """Children with an interpreter each; the next one is always warming up."""

    level = "process"

    def __init__(self, device: str, packages: frozenset[str]) -> None:
        self._device, self._packages = device, packages
        self._next = _spawn("fresh", device, packages)

    def start(self) -> Process:
        """The child that was warmed up; another one starts at once."""
        popen, channel = self._next
        self._next = _spawn("fresh", self._device, self._packages)
        return _Fresh(popen, channel)

    def close(self) -> None:
        """End the child that waits for a case that will not come."""
        popen, channel = self._next
        _Fresh(popen, channel).end()


class _Fresh:
    def __init__(self, popen: subprocess.Popen[bytes], channel: Channel) -> None:
        self._popen, self.channel = popen, channel

    def end(self) -> Exit:
        self.channel.close()
        _kill_group(self._popen.pid)
        _, status, usage = os.wait4(self._popen.pid, 0)
        self._popen.returncode = os.waitstatus_to_exitcode(status)  # it must not wait again
        cpu = usage.ru_utime + usage.ru_stime
        return Exit(self._popen.returncode, usage.ru_maxrss * 1024, cpu)


class InProcess:
    """No isolation: the child is a thread here, for a debugger. It cannot be killed."""

    level = "none"

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

    def end(self) -> Exit:
        self.channel.close()
        self._thread.join(timeout=2)
        return Exit(0)


def _spawn(
    module: str, device: str, packages: frozenset[str]
) -> tuple[subprocess.Popen[bytes], Channel]:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", f"selectivbench.sandbox.{module}", str(theirs.fileno())]
    popen = subprocess.Popen(
        [*command, device, ",".join(sorted(packages))],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        env=environment(),
        start_new_session=True,  # Ctrl-C is the controller's to handle
    )
    theirs.close()
    return popen, Channel(ours)


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError):  # it and all it started have ended
        os.killpg(pid, signal.SIGKILL)
