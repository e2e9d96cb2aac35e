"""What a child may use up: processes, memory, file sizes, descriptors."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

GIB = 1 << 30
MOST_MEMORY = 16 * GIB
LEAST_MEMORY = 2 * GIB
SCARCE = GIB
MOST_TASKS = 256
"""Processes and threads; torch, a compiler and their helpers stay well below."""
LARGEST_FILE = GIB
MOST_DESCRIPTORS = 1024


def memory_allowance() -> int:
    """Bytes that a child may take on top of what it inherits: most of what is free now."""
    free = _field(Path("/proc/meminfo"), "MemAvailable")
    if free is None:
        return MOST_MEMORY
    return min(MOST_MEMORY, max(LEAST_MEMORY, free * 3 // 4))


def is_scarce() -> bool:
    """Whether the machine has hardly any memory left."""
    free = _field(Path("/proc/meminfo"), "MemAvailable")
    return free is not None and free < SCARCE


def resident(pid: int | str) -> int:
    """Bytes of a process in memory now; 0 where it is gone."""
    return _field(Path(f"/proc/{pid}/status"), "VmRSS") or 0


def peak(pid: int | str) -> int:
    """Largest number of bytes that a process had in memory; 0 where it is gone."""
    return _field(Path(f"/proc/{pid}/status"), "VmHWM") or 0


def unnamed(pids: Iterable[int]) -> int:
    """Bytes in files of memory (memfd) that processes hold open: in no process's size.

    One that is shared counts once.
    """
    sizes: dict[int, int] = {}
    for pid in pids:
        with suppress(OSError):  # it has just ended
            for name in os.listdir(f"/proc/{pid}/fd"):
                path = f"/proc/{pid}/fd/{name}"
                with suppress(OSError):  # it has just closed it
                    if os.readlink(path).startswith("/memfd:"):
                        file = os.stat(path)
                        sizes[file.st_ino] = file.st_blocks * 512
    return sum(sizes.values())


def restart_peak() -> int:
    """Let this process's peak begin anew, and give what it holds already (from its parent, mostly).

    Where the kernel refuses, the peak so far is the baseline.
    """
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak("self")


def limit(device: str, tasks: int) -> None:
    """Put the limits on this process and all that it starts.

    No RLIMIT_AS on CUDA, whose driver reserves far more address space than there is memory.
    """
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: LARGEST_FILE,
        resource.RLIMIT_NOFILE: MOST_DESCRIPTORS,
        resource.RLIMIT_NPROC: tasks,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    if device == "cpu":
        wanted[resource.RLIMIT_AS] = _address_space(memory_allowance())
    for what, most in wanted.items():
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def _address_space(allowance: int) -> int:
    """Bytes that may be mapped in all.

    Counted from what is resident, so that an allocation fails (and torch goes on in smaller pieces)
    before a warden sees too much and kills. Yet a torch built for CUDA maps gigabytes of libraries
    that a CPU never touches: whatever is mapped, half the allowance is left.
    """
    mapped = _field(Path("/proc/self/status"), "VmSize") or 0
    return max(resident("self") + allowance, mapped + allowance // 2)


def tasks_allowed(own_user: bool) -> int:
    """Processes and threads for the child's user: its own count only where that user is its own."""
    return MOST_TASKS if own_user else MOST_TASKS + _tasks_of(os.getuid())


def _tasks_of(user: int) -> int:
    total = 0
    for folder in Path("/proc").iterdir():
        with suppress(OSError):  # it has just ended
            if folder.name.isdecimal() and folder.stat().st_uid == user:
                total += len(os.listdir(folder / "task"))
    return total


def _field(path: Path, name: str) -> int | None:
    """Bytes that a line such as ``VmHWM:  1024 kB`` stands for."""
    try:
        text = path.read_text()
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return None
