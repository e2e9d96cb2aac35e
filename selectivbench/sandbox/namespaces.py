"""Namespaces: no network, no sight of other processes, a temporary file system of bounded size."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from selectivbench.sandbox import syscalls
from selectivbench.sandbox.syscalls import MS_BIND, MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_PRIVATE
from selectivbench.sandbox.syscalls import MS_REC as RECURSIVE

APART = (
    syscalls.CLONE_NEWNS
    | syscalls.CLONE_NEWPID
    | syscalls.CLONE_NEWNET
    | syscalls.CLONE_NEWIPC
    | syscalls.CLONE_NEWUTS
)
OF_THE_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"),
    *("/etc", "/proc", "/sys", "/dev", "/opt"),
)
"""Top folders that stay in sight."""
FOLDER_BYTES, FOLDER_FILES = 1 << 30, 20_000
"""What a submission may write into its folder where that is a file system of its own."""


def enter() -> None:
    """Leave for namespaces of one's own; the next child is process 1 of a new pid namespace.

    Without root this takes a user namespace, in which the user has the id that it has outside.
    """
    user, group = os.geteuid(), os.getegid()
    syscalls.unshare(APART | (syscalls.CLONE_NEWUSER if user else 0))
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def settle(needed: Iterable[Path]) -> None:
    """In process 1: mounts that nobody else sees, its own /proc, a host name that says nothing.

    Of folders that are not the system's it sees what is ``needed`` only.
    """
    private()
    syscalls.mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    socket.sethostname("selectivbench")
    with suppress(OSError):  # memory of no process; nothing of ours shares any
        Path("/proc/sys/kernel/shmall").write_text("0")
    _hide_all_but(list(needed))


def _hide_all_but(needed: list[Path]) -> None:
    """Cover homes, /run, /tmp and whatever else there is: a service's socket there is a way out.

    No network namespace and no Landlock stops a connection to a socket that has a path.
    """
    for top in sorted(Path("/").iterdir()):
        if top.is_dir() and not top.is_symlink() and str(top) not in OF_THE_SYSTEM:
            _cover(top, _outermost(path for path in needed if path.is_relative_to(top)))


def private() -> None:
    """Let no mount of ours be seen outside."""
    syscalls.mount("", "/", "", RECURSIVE | MS_PRIVATE)


def own_folder(folder: str, user: int) -> None:
    """Put an empty file system of bounded size where a child's folder is."""
    Path(folder).mkdir(parents=True, exist_ok=True)  # what it lies in is hidden
    limits = f"size={FOLDER_BYTES},nr_inodes={FOLDER_FILES},mode=0700,uid={user},gid={user}"
    syscalls.mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, limits)


def open_way(needed: Iterable[Path]) -> None:
    """Let every user reach ``needed`` where a folder on the way (/root, say) is closed to others.

    Over each closed folder an empty one is mounted, in a mount namespace of this process and its
    children only, and in it what is needed; whatever else lies there is out of sight.
    """
    closed: dict[Path, list[Path]] = {}
    for path in needed:
        gate = closed_gate(path)
        if gate is not None:
            closed.setdefault(gate, []).append(path)
    if not closed:
        return
    syscalls.unshare(syscalls.CLONE_NEWNS)
    private()
    for gate, paths in closed.items():
        _cover(gate, _outermost(paths))


def closed_gate(path: Path) -> Path | None:
    """The first folder on the way to a path that others may not pass, or None."""
    for folder in reversed(path.parents):
        if folder.is_dir() and not folder.stat().st_mode & 0o001:
            return folder
    return None


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """Without those that lie in another one, which comes along with it."""
    kept: list[Path] = []
    for path in sorted(set(paths)):
        if not any(path.is_relative_to(outer) for outer in kept):
            kept.append(path)
    return kept


def _cover(gate: Path, paths: list[Path]) -> None:
    handles = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in paths if path.is_dir()}
    syscalls.mount("tmpfs", str(gate), "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=0755")
    for path, handle in handles.items():
        path.mkdir(parents=True, exist_ok=True)
        syscalls.mount(f"/proc/self/fd/{handle}", str(path), "", MS_BIND | RECURSIVE)
        os.close(handle)
