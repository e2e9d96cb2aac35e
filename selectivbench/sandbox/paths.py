"""What a child needs to read, and nothing else: interpreter, packages, its own side of ours."""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

from selectivbench.sandbox import landlock
from selectivbench.sandbox.landlock import DEVICE, LIST, READ

PACKAGE = Path(__file__).resolve().parent.parent
OURS = ("selectivbench", "pytest_selectivbench", "leaderboard")
CHILDS_SIDE = (
    "__init__.py",
    "errors.py",
    "batch.py",
    "signals.py",
    "backbone.py",
    "profiles.py",
    "training.py",
    "sandbox",
    "probes",
    "fla_cpu",
)
"""The part of our package that a child may read; tasks, seeds, oracle and runner are not in it."""
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/proc", "/sys")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def interpreter() -> tuple[Path, ...]:
    """Folders of the interpreter and of every package, ours among them."""
    prefixes = (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
    named = [*prefixes, *sys.path, *sysconfig.get_paths().values()]
    found = {Path(name).resolve() for name in named if name}
    found |= {Path(os.path.abspath(name)) for name in named if name}
    return tuple(sorted(path for path in found if path.is_dir() and path != Path("/")))


def caches() -> tuple[Path, ...]:
    """Where compiled kernels lie; a child only reads them."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    own = os.environ.get("NUMBA_CACHE_DIR")
    return (base / "selectivbench", *([Path(own)] if own else []))


def programs() -> tuple[Path, ...]:
    """All that a child runs or loads."""
    return (*interpreter(), *caches(), PACKAGE)


def needed() -> tuple[Path, ...]:
    """All that another user must be able to reach for a child to run as that user."""
    return (*programs(), Path(tempfile.gettempdir()).resolve())


def rules(folder: str, device: str) -> dict[Path, int]:
    """Landlock's rules for a child that works in ``folder``."""
    hidden = tuple(_installed())
    allowed: dict[Path, int] = {}
    for root in (*map(Path, SYSTEM), *(p for p in interpreter() if p not in _checkouts())):
        allowed |= landlock.below(root, READ, hidden)
    allowed |= {PACKAGE: LIST} | {PACKAGE / name: READ for name in CHILDS_SIDE}
    allowed |= dict.fromkeys(caches(), READ)
    allowed |= {Path(name): DEVICE for name in DEVICES}
    if device == "cuda":
        allowed |= dict.fromkeys(Path("/dev").glob("nvidia*"), DEVICE)
        allowed |= dict.fromkeys(Path("/opt").glob("*cuda*"), READ)
    return allowed | {Path(folder): landlock.EVERYTHING}


def _installed() -> Iterator[Path]:
    """Where our packages lie on the path; everything in them but the child's side is hidden."""
    for entry in interpreter():
        yield from (entry / name for name in OURS if (entry / name / "__init__.py").is_file())


def _checkouts() -> frozenset[Path]:
    """Folders on the path that hold our source: a checkout, with records and tests beside it."""
    packages = ("site-packages", "dist-packages")
    return frozenset(p.parent for p in _installed() if p.parent.name not in packages)
