"""Followers of a running case. They can never make it fail, and there is always one to call."""

from __future__ import annotations

from selectivbench.record import Record


class NullTracker:
    """Follows nothing; stands where no tracker is wanted, so that no caller asks for one."""

    def point(self, step: int, steps: int, loss: float, accuracy: float | None) -> None:
        """Nothing."""

    def done(self, record: Record) -> None:
        """Nothing."""
