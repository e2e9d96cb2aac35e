"""The environment of a child: what it needs to run, and no key, token or name."""

from __future__ import annotations

import os

PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
PASSED_PREFIXES = ("CUDA_", "NUMBA_", "TRITON_", "XDG_", "OPENBLAS_")


def environment() -> dict[str, str]:
    """The clean environment of a child: no keys, tokens or names; one passive OpenMP thread."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if key in PASSED_ON or key.startswith(PASSED_PREFIXES)
    }
    fixed = {
        "OMP_WAIT_POLICY": "PASSIVE",
        "NUMBA_THREADING_LAYER": "workqueue",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }
    return kept | fixed | _module_path()


def _module_path() -> dict[str, str]:
    """PYTHONPATH without what depends on the working folder: a ``torch.py`` may lie there."""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    fixed = [entry for entry in entries if os.path.isabs(entry)]
    return {"PYTHONPATH": os.pathsep.join(fixed)} if fixed else {}
