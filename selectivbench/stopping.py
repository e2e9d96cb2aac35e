"""A training's early end: where the sender of batches waits for a validation's verdict."""

from __future__ import annotations

from collections.abc import Iterable
from queue import SimpleQueue

from selectivbench.metrics import score
from selectivbench.profiles import EarlyStop
from selectivbench.record import Point
from selectivbench.tasks.base import Dataset


class Gate:
    """Between the two threads of a training. Without a rule it stands open.

    begun: the learning curve of an earlier part of the same training.
    """

    def __init__(self, early: EarlyStop | None, data: Dataset, begun: Iterable[Point] = ()) -> None:
        self._early = early
        self._levels = data.levels("validation") if early else None
        self._verdicts: SimpleQueue[bool] = SimpleQueue()
        self._scores: list[float] = []
        self.over = any(self._judged(p.accuracy) for p in begun if p.accuracy is not None)

    def closes(self) -> bool:
        """Wait for the verdict on what was sent last; True when no more is to be sent."""
        return self._early is not None and self._verdicts.get()

    def judge(self, accuracy: float | None) -> bool:
        """Whether the training is over with this validation; None is none."""
        if accuracy is None or self._early is None:
            return False
        self.over = self._judged(accuracy)
        self._verdicts.put(self.over)
        return self.over

    def _judged(self, accuracy: float) -> bool:
        if self._early is None or self._levels is None:
            return False
        self._scores.append(score(accuracy, self._levels.floor, self._levels.ceiling))
        return self._early.holds(self._scores)

    def __enter__(self) -> None:
        """The judge is there."""

    def __exit__(self, *_: object) -> None:
        self._verdicts.put(True)  # nobody judges any more: no sender may wait for it
