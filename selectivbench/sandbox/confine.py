"""The last steps of a child before it runs a submission; none of them can be undone.

Namespaces were entered by its warden. Order matters: what needs root comes first, then Landlock,
then the user, then the signal that binds it to its warden (a change of user would clear it).
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from selectivbench.sandbox import landlock, limits, namespaces, paths, syscalls

LANDLOCK, NAMESPACES = 2, 3
"""The levels from which on each of them is used."""


@dataclass(frozen=True)
class Confinement:
    """level: 1 process, 2 and Landlock, 3 and namespaces. user: the id to change to, or None."""

    level: int
    user: int | None
    device: str


def enter(folder: str, wanted: Confinement) -> dict[str, Any]:
    """Go into a child's own folder and lock the door; gives what was measured on the way.

    OSError where a step is refused: then no submission is run.
    """
    baseline = limits.restart_peak()
    if wanted.level >= NAMESPACES:
        owner = os.getuid() if wanted.user is None else wanted.user
        namespaces.own_folder(folder, owner)
    os.chdir(folder)
    _settle(folder, wanted)
    tasks = limits.tasks_allowed(wanted.user is not None)
    limits.limit(wanted.device, tasks)
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    if wanted.level >= LANDLOCK:
        landlock.restrict(paths.rules(folder, wanted.device))
    _become(wanted.user)
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    return {"baseline": baseline, "level": wanted.level, "user": os.getuid(), "tasks": tasks}


def _settle(folder: str, wanted: Confinement) -> None:
    """Environment and module path that lead nowhere else; no argument tells who started this."""
    for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME"):
        os.environ[name] = folder
    if wanted.user is not None or wanted.level >= LANDLOCK:
        os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
    tempfile.tempdir = None
    sys.argv[:] = [""]
    _tolerate_caches_that_are_closed()


def _become(user: int | None) -> None:
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        # A change of user hides /proc/self from its own process, and CUDA reads it; nobody else is
        # this user.
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)
    syscalls.drop_capabilities()
    with suppress(OSError):  # a kernel without keyrings, or a container that forbids them all
        syscalls.own_session_keyring()
        if user is not None:  # a number that is used again some children later
            syscalls.clear_user_keyrings()


def _tolerate_caches_that_are_closed() -> None:
    """A kernel compiled here is not kept where the cache cannot be written to; it is no error.

    Numba has this hook for Windows alone; without it, its first compilation would fail.
    """
    numba_caching = sys.modules.get("numba.core.caching")
    if numba_caching is not None:
        quiet = staticmethod(lambda: suppress(OSError))
        numba_caching.Cache._guard_against_spurious_io_errors = quiet
