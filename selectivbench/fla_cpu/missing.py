"""One sentence, instead of "0 active drivers", where a Triton kernel is called without a GPU."""

from __future__ import annotations

import sys
from typing import Any

from selectivbench.errors import UsageError


class NoDriver:
    """Stands where Triton keeps its GPU driver; whatever is asked of it is refused."""

    def __getattr__(self, name: str) -> Any:
        raise UsageError(
            f"fla_cpu: this machine has no GPU for the Triton kernel {_caller()}, and the op has "
            "no CPU version; see the coverage table (python -m selectivbench.fla_cpu.coverage), "
            "or move the layer and its input to a GPU."
        )


def _caller() -> str:
    """The kernel that Triton was about to run, from the frames above."""
    frame = sys._getframe(2)
    while frame is not None:
        kernel = getattr(frame.f_locals.get("self"), "fn", None)
        if kernel is not None and frame.f_globals.get("__name__", "").startswith("triton."):
            while hasattr(kernel, "fn"):
                kernel = kernel.fn
            return getattr(kernel, "__name__", "of unknown name")
        frame = frame.f_back  # type: ignore[assignment]
    return "of unknown name"


def refuse_launches() -> bool:
    """Put `NoDriver` in place where Triton finds no driver of its own."""
    from triton.runtime.driver import driver

    try:
        return isinstance(driver.active, NoDriver)
    except RuntimeError:
        driver.set_active(NoDriver())
        return True


def allow_launches() -> None:
    from triton.runtime.driver import driver

    if isinstance(driver._active, NoDriver):
        driver._active = None
