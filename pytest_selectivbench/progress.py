"""One live line for the running training, on a terminal only."""

from __future__ import annotations

import os
import time
from typing import TextIO

from selectivbench.record import Record
from selectivbench.tracking import Follower, NullTracker, Start
from selectivbench.tracking.contract import training_name

SAVE, RESTORE, ERASE = "\0337", "\0338", "\033[K"


class Progress:
    """Writes ``step, loss, accuracy, time left`` behind pytest's own output."""

    name = "live line"

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    @classmethod
    def on(cls, stream: TextIO | None) -> Progress:
        """Live on a terminal that is not CI's; silent elsewhere."""
        live = stream is not None and stream.isatty() and not os.environ.get("CI")
        return cls(stream if live else None)

    def follow(self, start: Start) -> Follower:
        """A line for a training that starts."""
        if self._stream is None:
            return NullTracker()
        return _Line(self._stream, training_name(start.identity))

    def known(self, record: Record, source: str) -> None:
        """A re-used record takes no time."""

    def close(self) -> None:
        """Each line goes with its training."""


class _Line:
    """The line of one training."""

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream, self._name, self._began = stream, name, time.monotonic()

    def point(self, step: int, steps: int, loss: float, accuracy: float | None) -> None:
        """Show how far the training is."""
        left = (time.monotonic() - self._began) / step * (steps - step)
        seen = "" if accuracy is None else f", accuracy {accuracy:.3f}"
        text = f" {self._name} step {step}/{steps}, loss {loss:.3f}{seen}, {left:.0f} s left"
        self._write(SAVE + text + ERASE + RESTORE)

    def done(self, record: Record) -> None:
        """The line goes when the training is over, not when a record is written."""

    def end(self) -> None:
        """Erase the line."""
        self._write(ERASE)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
