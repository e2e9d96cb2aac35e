"""A tracker that writes one line for each point of the learning curve, for a person or a log."""

from __future__ import annotations

import time
from typing import TextIO

from selectivbench.record import Record


class Lines:
    """``step 35/700, loss 1.234, accuracy 0.500, 12 s left``, each line at once."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._first: tuple[float, int] | None = None

    def point(self, step: int, steps: int, loss: float, accuracy: float | None) -> None:
        """The time left is judged from the first point on, which an interruption may have moved."""
        now = time.monotonic()
        if self._first is None:
            self._first = (now, step)
        began, at = self._first
        seen = "" if accuracy is None else f", accuracy {accuracy:.3f}"
        left = "" if step == at else f", {(now - began) / (step - at) * (steps - step):.0f} s left"
        self._stream.write(f"step {step}/{steps}, loss {loss:.3f}{seen}{left}\n")
        self._stream.flush()

    def done(self, record: Record) -> None:
        """The result is its caller's to say."""
