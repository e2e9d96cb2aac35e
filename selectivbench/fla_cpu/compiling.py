"""Numba kernels that are compiled once per machine, and run on as many threads as torch uses.

The compiled code is kept in the user's cache folder, never beside the source, so a read-only
install works; Numba writes each file under a temporary name and renames it, so several first runs
at once work too. The folder's name carries a digest of the kernels' sources, because Numba itself
notices a change only in the file of the kernel, not in the files that it inlines.

Threads are plain ones around kernels that release the GIL. Numba's own `prange` was not used:
its portable layer ends the process when two threads enter it at once, and a process forked after
its first parallel region dies.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numba
import numba.core.event
import numpy.typing as npt
import torch

Array = npt.NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile `function` on its first call, or load it from the cache folder."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
    with _cache_in(cache_folder()):
        compiled: F = numba.njit(cache=True, **options)(function)
    _announce()
    return compiled


@cache
def cache_folder() -> Path:
    """`~/.cache/selectivbench/kernels-<digest>`, or a temporary one where home is read-only."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for source in sorted((*here.glob("simd*.py"), *here.glob("*_kernels.py"))):
        digest.update(source.read_bytes())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for root in (base, Path(tempfile.gettempdir()) / f"cache-{os.getuid()}"):
        folder = root / "selectivbench" / f"kernels-{digest.hexdigest()[:12]}"
        if _writable(folder):
            return folder
    return Path(tempfile.mkdtemp(prefix="selectivbench-"))


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


@contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, str(folder)
    try:
        yield
    finally:
        config.CACHE_DIR = before


@cache
def _announce() -> None:
    register: Any = numba.core.event.register
    register("numba:compile", _FirstCompile())


class _FirstCompile(numba.core.event.Listener):
    """Says once that compiling takes a while; a silent minute looks like a hang."""

    said = False

    def on_start(self, event: Any) -> None:
        module = getattr(event.data["dispatcher"], "py_func", self).__module__
        if not self.said and module.startswith(__package__ or ""):
            _FirstCompile.said = True
            where = cache_folder()
            text = f"fla_cpu: compiling kernels, once per machine, kept in {where}"
            print(text, file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        """Nothing is said at the end."""


@cache
def _pool(process: int, workers: int) -> ThreadPoolExecutor:
    """One pool per process id: the threads of a parent do not exist in its forked child."""
    return ThreadPoolExecutor(workers, thread_name_prefix=f"fla_cpu-{process}")


def run(function: Callable[..., None], items: int, *args: Any) -> None:
    """Call `function(first, last, *args)` over `range(items)` on `torch.get_num_threads()` threads.

    More pieces than threads, so that a thread which the system has put aside holds up little.
    """
    threads = min(torch.get_num_threads(), items)
    if threads <= 1:
        function(0, items, *args)
        return
    pieces = min(items, 4 * threads)
    edges = [items * i // pieces for i in range(pieces + 1)]
    pool = _pool(os.getpid(), threads)
    pending = [pool.submit(function, low, high, *args) for low, high in pairwise(edges)]
    for future in pending:
        future.result()


def flat(tensor: torch.Tensor) -> Array:
    """The memory of a contiguous tensor as one row of numbers, shared, not copied."""
    return tensor.detach().view(-1).numpy()
