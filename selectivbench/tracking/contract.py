"""What follows trainings, and what it is told. ``Tracker`` itself is the record's neighbour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from selectivbench.record import Entry, Identity, Record, Tracker


@dataclass(frozen=True)
class Start:
    """What is known of a training before its first step."""

    identity: Identity
    """Of the task that is trained."""
    entry: Entry
    tasks: tuple[str, ...]
    """Every task that is evaluated on the training, the trained one first."""
    steps: int
    budget: Mapping[str, Any]
    """Model size and budget, as the record will have them."""
    source: str
    """The submission's text."""


class Follower(Tracker, Protocol):
    """A tracker of one training."""

    def end(self) -> None:
        """The training is over, with its records or (an error, Ctrl-C) without."""


class Tracking(Protocol):
    """Gives each training its follower. Whatever it raises is one warning, see together.py."""

    @property
    def name(self) -> str:
        """What a warning calls it."""

    def follow(self, start: Start) -> Follower:
        """A training starts."""

    def known(self, record: Record, source: str) -> None:
        """A case took its record from an earlier run, of a submission with this text."""

    def close(self) -> None:
        """The last training is over."""


class NullTracker:
    """Follows nothing; stands where no tracker is wanted, so that no caller asks for one."""

    def point(self, step: int, steps: int, loss: float, accuracy: float | None) -> None:
        """Nothing."""

    def done(self, record: Record) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""


def training_name(identity: Identity) -> str:
    """``memorization-v1[amb8-seed1]``; a task's only variant, ``base``, goes without saying."""
    variant = "" if identity.variant == "base" else f"{identity.variant}-"
    return f"{identity.task}[{variant}seed{identity.seed}]"
