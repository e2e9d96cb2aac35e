"""What isolation can be had here: tried out in processes of its own, and printed as JSON.

Run as ``python -P -m selectivbench.sandbox.probe``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from selectivbench.sandbox import landlock, namespaces, paths, syscalls

ANYBODY = 2_000_000_000
"""Ids from here on belong to nobody: above every range that distributions and containers hand out."""


def main() -> None:
    """One line: for each means, "" where it works, else why it does not."""
    found = {
        "user": _tried(_change_user) if os.geteuid() == 0 else "only root can change the user",
        "landlock": _tried(_landlock),
        "namespaces": _tried(_namespaces),
    }
    print(json.dumps(found))


def _tried(attempt: Callable[[], None]) -> str:
    """Why an attempt fails in a process of its own, or ""."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            attempt()
        except OSError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        text = stream.read().decode()
    os.waitpid(pid, 0)
    return text


def _change_user() -> None:
    namespaces.open_way(paths.needed())
    os.setgroups([])
    os.setresgid(ANYBODY, ANYBODY, ANYBODY)
    os.setresuid(ANYBODY, ANYBODY, ANYBODY)
    for path in paths.needed():
        if path.is_relative_to(paths.PACKAGE) or path in paths.interpreter():
            os.listdir(path)


def _landlock() -> None:
    version = landlock.abi()
    if version < landlock.LEAST_ABI:
        raise OSError(f"the kernel has version {version}, needed: {landlock.LEAST_ABI} (Linux 6.7)")
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    landlock.restrict({paths.PACKAGE: landlock.READ})


def _namespaces() -> None:
    namespaces.enter()
    pid = os.fork()
    if pid:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code:
            raise OSError(f"mounting in them failed ({os.strerror(code) if code > 0 else code})")
        return
    code = 1
    try:
        namespaces.settle(paths.programs())
        namespaces.own_folder("/tmp", os.getuid())
        code = 0
    except OSError as error:
        code = error.errno or 1
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
