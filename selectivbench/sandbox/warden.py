"""The warden: a small trusted process around each child, which outlives it and cleans up after it.

It is the parent of all that a submission starts, daemons included (child subreaper, or process 1 of
a pid namespace). It listens to its *lifeline* from the controller: when that says ``end`` or is cut
(the controller died), the child and all its descendants are killed. At the end it reports how the
child ended, its peak memory, and the last that was printed.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

from selectivbench.errors import ChildCrashed
from selectivbench.sandbox import confine, namespaces, paths, syscalls
from selectivbench.sandbox.protocol import Channel
from selectivbench.sandbox.watching import Watch


def hold(
    channel: socket.socket, lifeline: socket.socket, level: int, body: Callable[[Channel], None]
) -> None:
    """Run ``body`` in a child of this process, and watch it until it and all it started are gone."""
    if os.getsid(0) != os.getpid():  # a fresh interpreter leads its session already
        os.setsid()
    try:
        if level >= confine.NAMESPACES and not _in_namespaces():
            return
        syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
        reading, writing = os.pipe()
        child = os.fork()
    except OSError as error:
        _report(lifeline, {"status": 1, "cause": f"isolation level {level}: {error}"})
        return
    if not child:
        _be_the_child(channel, writing, body)
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)  # not to be looked into by a child of its own user
    channel.close()
    os.close(writing)
    _report(lifeline, Watch(child, lifeline, reading).until_all_are_gone())


def _in_namespaces() -> bool:
    """Whether this is process 1 of the new namespaces; its parent just waits for it."""
    namespaces.enter()
    inner = os.fork()
    if inner:
        os.waitpid(inner, 0)
        return False
    die_with_parent()
    namespaces.settle(paths.programs())
    return True


def die_with_parent() -> None:
    """Be killed when the process (in fact the thread) that forked this one ends."""
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)


def _be_the_child(channel: socket.socket, output: int, body: Callable[[Channel], None]) -> None:
    try:
        os.setsid()
        die_with_parent()
        _keep_only(channel.fileno(), output)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        body(Channel(channel))
        with suppress(OSError):
            sys.stdout.flush()
    finally:
        os._exit(0)  # no atexit, no flush of buffers inherited from the server


def _keep_only(channel: int, output: int) -> None:
    """Close every descriptor but the channel; print into ``output``, read from nothing."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != channel:
            with suppress(OSError):  # the one that listed the folder is closed already
                os.close(int(name))


def _report(lifeline: socket.socket, facts: dict[str, object]) -> None:
    with suppress(ChildCrashed):  # the controller is gone: nobody wants to know
        Channel(lifeline).send("exited", facts)
