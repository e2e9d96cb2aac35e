"""How a child ended, as its warden reports it."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Exit:
    """How a child ended: exit code (negative: a signal), bytes at its peak, CPU seconds.

    output: the last that it printed. cause: why its warden ended it, where that was the warden's
    own decision.
    """

    code: int
    peak_memory: int | None = None
    cpu: float | None = None
    output: str = ""
    cause: str = ""

    def __str__(self) -> str:
        if self.cause:
            return self.cause
        if self.code < 0:
            names = {int(known): known.name for known in signal.Signals}  # not the real-time ones
            return f"it was ended by {names.get(-self.code, f'signal {-self.code}')}"
        return f"it left with exit code {self.code}"

    @property
    def out_of_memory(self) -> bool:
        """Whether the warden ended it for its size."""
        return self.cause.startswith("out of memory")


UNWATCHED = Exit(-9, cause="its warden was killed, and it with it")
"""The end of a child whose warden gives no report: the submission must have killed it."""


def exit_of(meta: Mapping[str, Any]) -> Exit:
    """Read a warden's report."""
    return Exit(
        int(meta["status"]),
        meta.get("peak_memory"),
        meta.get("cpu"),
        meta.get("output", ""),
        meta.get("cause", ""),
    )
