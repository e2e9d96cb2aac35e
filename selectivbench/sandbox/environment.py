"""The environment of a child: what it needs to run, and no key, token or name."""

from __future__ import annotations

import os

PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
PASSED_PREFIXES = ("CUDA_", "NUMBA_", "TRITON_", "XDG_", "OPENBLAS_")

# A training step asks for the tensors that the last one freed. Left to itself, glibc hands large ones
# back to the kernel and gets them zeroed, page by page: a tenth of a step of Mamba on a CPU.
ALLOCATOR = ":".join(
    (
        "glibc.malloc.mmap_threshold=33554432",  # bytes; no larger value is heeded
        "glibc.malloc.trim_threshold=4294967296",
        "glibc.malloc.hugetlb=1",
    )
)
"""glibc's settings for children: freed memory is kept, in huge pages where the kernel has them."""


def environment() -> dict[str, str]:
    """The clean environment of a child: no keys, tokens or names; one passive OpenMP thread."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if key in PASSED_ON or key.startswith(PASSED_PREFIXES)
    }
    fixed = {
        "OMP_WAIT_POLICY": "PASSIVE",
        "GLIBC_TUNABLES": ALLOCATOR,
        # The driver's tools and /proc count GPUs in this order; CUDA itself puts the fastest first.
        "CUDA_DEVICE_ORDER": os.environ.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        "NUMBA_THREADING_LAYER": "workqueue",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }
    return kept | fixed | _module_path()


def _module_path() -> dict[str, str]:
    """PYTHONPATH without the working folder, however it is named: a ``torch.py`` may lie there."""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    fixed = [entry for entry in entries if os.path.isabs(entry) and not _is_here(entry)]
    return {"PYTHONPATH": os.pathsep.join(fixed)} if fixed else {}


def _is_here(entry: str) -> bool:
    """Whether it is the working folder, and not the checkout that this very file comes from."""
    here, own = os.path.realpath(os.curdir), os.path.realpath(__file__)
    return os.path.realpath(entry) == here and not own.startswith(here + os.sep)
