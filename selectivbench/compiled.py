"""Loads the compiled kernels when they are first needed, cached in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

SOURCE = "selectivbench.kernels"


@cache
def kernels() -> ModuleType:
    """The module of compiled loops; the first call on a machine compiles them (about 20 s in all).

    The cache lies in ``NUMBA_CACHE_DIR``, else in a folder of the user named after the source's
    content, so that an install that cannot be written to works, and an edited source recompiles.
    """
    import numba

    config: Any = numba.config  # its attributes are made at run time
    before = config.CACHE_DIR
    folder = Path(before) if before else cache_folder()
    if folder is not None and not folder.exists():
        print(f"selectivbench: compiling kernels once, cached in {folder}", file=sys.stderr)
        folder.mkdir(parents=True, exist_ok=True)  # another worker may be as far
    config.CACHE_DIR = str(folder or "")
    try:
        return import_module(SOURCE)
    finally:
        config.CACHE_DIR = before


def cache_folder() -> Path | None:
    """A folder that can be written to, or None: then kernels are compiled in each process."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for root in (home, Path(tempfile.gettempdir()) / f"selectivbench-{os.getuid()}"):
        folder = root / "selectivbench" / _content_name()
        nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
        if os.access(nearest, os.W_OK | os.X_OK):
            return folder
    return None


def _content_name() -> str:
    """``kernels-`` and a digest of all that the machine code depends on, bar the processor."""
    spec = find_spec(SOURCE)
    assert spec is not None
    assert spec.origin is not None
    sources = sorted(Path(spec.origin).parent.glob("*.py"))
    parts = (
        *(source.read_bytes() for source in sources),
        sys.version.encode(),
        version("numba").encode(),
    )
    return "kernels-" + hashlib.blake2b(b"|".join(parts), digest_size=6).hexdigest()
