"""Train flash-linear-attention's layers on CPU tensors.

    from selectivbench import fla_cpu
    fla_cpu.enable()

fla's layers need a GPU, because their work is done by Triton kernels. After `enable()` the same
layers, unmodified, run forward and backward on CPU tensors; tensors on a GPU still go to Triton.
`disable()` gives fla back as it was. Nothing heavy is imported before `enable()` is called.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import RLock
from typing import TYPE_CHECKING

from selectivbench.fla_cpu.table import SUPPORTED_FLA

if TYPE_CHECKING:
    from selectivbench.fla_cpu.backend import Installation

__all__ = ["SUPPORTED_FLA", "disable", "enable", "is_enabled", "warm_up"]

_lock = RLock()
_installed: list[Installation] = []


def enable() -> None:
    """Serve CPU tensors; once enabled, further calls do nothing."""
    with _lock:
        if not _installed:
            from selectivbench.fla_cpu.backend import Installation

            _installed.append(Installation())


def disable() -> None:
    """Leave fla as it was before `enable()`."""
    with _lock:
        while _installed:
            _installed.pop().restore()


def is_enabled() -> bool:
    return bool(_installed)


def warm_up(names: Iterable[str] | None = None) -> None:
    """Compile the kernels, or load them from the user's cache folder; a fork server calls this."""
    from selectivbench.fla_cpu.warming import warm

    warm(names)
