"""Landlock: rules on files, TCP and signals that a process puts on itself and cannot take off."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from selectivbench.sandbox.syscalls import syscall

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
ASK_VERSION = 1
PATH_BENEATH = 1
LEAST_ABI = 4
"""The first version that knows TCP (Linux 6.7)."""

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
LIST = READ_DIR
DEVICE = READ_FILE | WRITE_FILE | IOCTL_DEV
EVERYTHING = (1 << 16) - 1
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""The rights that a rule on a file, not on a folder, may name."""
FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
"""How many rights on files each version knows; 16 from version 5 on."""
TCP = 1 | 2
SIGNALS_AND_ABSTRACT_SOCKETS = 1 | 2


def abi() -> int:
    """The kernel's version of Landlock; 0 where it has none or it is switched off."""
    try:
        return syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ASK_VERSION)
    except OSError:
        return 0


def restrict(rules: Mapping[Path, int]) -> None:
    """Allow what ``rules`` say below each path, and nothing else that Landlock knows of.

    The process must have no_new_privs. Paths that do not exist are left out.
    """
    version = abi()
    handled = (1 << FILE_RIGHTS.get(version, 16)) - 1
    ruleset = _ruleset(version, handled)
    try:
        for path, rights in rules.items():
            with suppress(FileNotFoundError):
                _allow(ruleset, path, rights & handled)
        syscall(RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _ruleset(version: int, handled: int) -> int:
    scoped = SIGNALS_AND_ABSTRACT_SOCKETS if version >= 6 else 0
    raw = struct.pack("<QQQ", handled, TCP, scoped)[: 24 if version >= 6 else 16]
    buffer = ctypes.create_string_buffer(raw, len(raw))
    return syscall(CREATE_RULESET, buffer, ctypes.c_size_t(len(raw)), 0)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not path.is_dir():
            rights &= OF_FILES
        raw = struct.pack("<Qi", rights, descriptor)
        buffer = ctypes.create_string_buffer(raw, len(raw))
        syscall(ADD_RULE, ruleset, PATH_BENEATH, buffer, 0)
    finally:
        os.close(descriptor)


def below(root: Path, rights: int, but: Iterable[Path]) -> dict[Path, int]:
    """Rules for all below ``root`` but some folders: their siblings one by one, at every depth."""
    left_out = [path for path in but if path == root or path.is_relative_to(root)]
    if not left_out:
        return {root: rights}
    if root in left_out:
        return {}
    rules = {root: LIST}
    with suppress(OSError):  # a folder that cannot be listed gives no rule
        for inner in root.iterdir():
            rules |= below(inner, rights, left_out)
    return rules
