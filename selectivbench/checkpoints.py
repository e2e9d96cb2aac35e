"""A training that may be interrupted: its checkpoint is one file, and it ends as if it never was.

The file is the child's (model, optimiser, generators) with the learning curve so far in its header.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

import numpy as np

from selectivbench import atomic
from selectivbench.errors import ProtocolError, UsageError, explain
from selectivbench.record import Point
from selectivbench.sandbox.controller import Child
from selectivbench.sandbox.states import State


class Progress(Protocol):
    """Where a training keeps how far it has come. ``due`` and the rest may be in two threads."""

    def resume(self, child: Child) -> tuple[Point, ...]:
        """Bring a child to where an earlier run was; the learning curve up to there."""

    def due(self, step: int) -> bool:
        """Whether a checkpoint is to be made at this step, a point of the curve."""

    def was_due(self, step: int) -> bool:
        """What ``due`` said of a step."""

    def keep(self, state: State, curve: Sequence[Point]) -> None:
        """Keep a checkpoint, made at the last point of the curve."""


class Unkept:
    """Keeps nothing; stands where a training is short enough to be done again."""

    def resume(self, child: Child) -> tuple[Point, ...]:  # noqa: ARG002
        """Nothing was kept."""
        return ()

    def due(self, step: int) -> bool:  # noqa: ARG002
        """Never."""
        return False

    def was_due(self, step: int) -> bool:  # noqa: ARG002
        """Never."""
        return False

    def keep(self, state: State, curve: Sequence[Point]) -> None:
        """Nothing."""


UNKEPT = Unkept()


class Checkpoints:
    """The checkpoint of one training in a file, made anew every so many seconds."""

    def __init__(self, path: Path, every: float = 30.0) -> None:
        self.path, self.every = path, every
        self._last = time.monotonic()
        self._due: set[int] = set()

    def resume(self, child: Child) -> tuple[Point, ...]:
        """From the file, if there is one; a damaged one is a UsageError and not thrown away."""
        if not self.path.is_file():
            return ()
        try:
            state = State.read(np.frombuffer(self.path.read_bytes(), dtype=np.uint8))
            curve = tuple(Point(**point) for point in json.loads(state.labels["curve"]))
        except (ProtocolError, KeyError, ValueError, TypeError) as error:
            got = f"{self.path} ({error})"
            remedy = "remove it to begin anew"
            raise UsageError(explain("checkpoint", got, "a whole file", remedy)) from error
        child.resume(state)
        return curve

    def due(self, step: int) -> bool:
        """Where the time since the last one is over; the file is this old if the run is killed."""
        now = time.monotonic()
        if now - self._last < self.every:
            return False
        self._last = now
        self._due.add(step)
        return True

    def was_due(self, step: int) -> bool:
        """What ``due`` said of a step."""
        return step in self._due

    def keep(self, state: State, curve: Sequence[Point]) -> None:
        """Replace the file; a reader sees the old one or the new one."""
        points = json.dumps([asdict(point) for point in curve])
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            atomic.write(self.path, state.labelled({"curve": points}).raw.tobytes())
        except OSError as error:
            got = f"{self.path} ({error.strerror})"
            raise UsageError(explain("checkpoint", got, "a disk with room, and rights")) from error

    def clear(self) -> None:
        """The training is over and has its record."""
        self.path.unlink(missing_ok=True)
