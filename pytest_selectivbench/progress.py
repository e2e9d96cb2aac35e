"""One live line for the running case, on a terminal only."""

from __future__ import annotations

import os
import time
from typing import TextIO

from selectivbench.record import Record

SAVE, RESTORE, ERASE = "\0337", "\0338", "\033[K"


class Progress:
    """A tracker that writes ``step, loss, accuracy, time left`` behind pytest's own output."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._name, self._began = "", 0.0

    @classmethod
    def on(cls, stream: TextIO) -> Progress:
        """Live on a terminal that is not CI's; silent elsewhere."""
        live = stream.isatty() and not os.environ.get("CI")
        return cls(stream if live else None)

    def begin(self, name: str) -> None:
        """A case starts."""
        self._name, self._began = name, time.monotonic()

    def point(self, step: int, steps: int, loss: float, accuracy: float | None) -> None:
        """Show how far the case is."""
        left = (time.monotonic() - self._began) / step * (steps - step)
        seen = "" if accuracy is None else f", accuracy {accuracy:.3f}"
        text = f" {self._name} step {step}/{steps}, loss {loss:.3f}{seen}, {left:.0f} s left"
        self._write(SAVE + text + ERASE + RESTORE)

    def done(self, record: Record) -> None:
        """The line goes when the case is over, not when a record is written."""

    def clear(self) -> None:
        """Erase the line."""
        self._write(ERASE)

    def _write(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(text)
            self._stream.flush()
