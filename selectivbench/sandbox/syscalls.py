"""The few Linux system calls that Python 3.11 has no name for, through ctypes."""

from __future__ import annotations

import ctypes
import os
import struct

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18

SYS_CAPSET = {"x86_64": 126, "aarch64": 91}
SYS_KEYCTL = {"x86_64": 250, "aarch64": 219}
JOIN_SESSION_KEYRING, CLEAR = 1, 7
USER_KEYRING, USER_SESSION_KEYRING = -4, -5
CAPABILITY_VERSION = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, value: int) -> None:
    """``prctl(option, value, 0, 0, 0)``."""
    wide = ctypes.c_ulong
    _checked(_libc.prctl(option, wide(value), wide(0), wide(0), wide(0)), f"prctl({option})")


def unshare(flags: int) -> None:
    """Leave the namespaces of ``flags``; a new pid namespace holds the next child, not the caller."""
    _checked(_libc.unshare(flags), f"unshare({flags:#x})")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """``mount(2)``; empty text stands for a null pointer."""
    texts = [text.encode() or None for text in (source, target, kind)]
    done = _libc.mount(*texts, ctypes.c_ulong(flags), data.encode() or None)
    _checked(done, f"mount({target})")


def drop_capabilities() -> None:
    """Give up every capability, effective, permitted and inheritable."""
    header = ctypes.create_string_buffer(struct.pack("<Ii", CAPABILITY_VERSION, 0))
    nothing = ctypes.create_string_buffer(24)
    number = SYS_CAPSET[os.uname().machine]
    _checked(_libc.syscall(number, header, nothing), "capset")


def own_session_keyring() -> None:
    """Leave the keyring that is shared with the login session and with every other child."""
    _checked(_libc.syscall(SYS_KEYCTL[os.uname().machine], JOIN_SESSION_KEYRING, None), "keyctl")


def clear_user_keyrings() -> None:
    """Empty what an earlier process of this very user may have left there."""
    for keyring in (USER_KEYRING, USER_SESSION_KEYRING):
        number = SYS_KEYCTL[os.uname().machine]
        _checked(_libc.syscall(number, CLEAR, ctypes.c_int(keyring)), "keyctl")


def syscall(number: int, *arguments: object) -> int:
    """A raw system call; OSError where it fails."""
    return _checked(_libc.syscall(number, *arguments), f"system call {number}")
