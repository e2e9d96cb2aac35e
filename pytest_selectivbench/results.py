"""From test reports to the rows of the summary, also across xdist workers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean
from typing import Any

import pytest

from selectivbench.metrics import score, z_score
from selectivbench.record import Record
from selectivbench.thresholds import bar_for, steps_to_bar

PROPERTY = "selectivbench"
"""Name of the user property that carries a row; one JSON string, since xdist takes primitives only."""


@dataclass(frozen=True)
class Outcome:
    """What a test reports: its record, and why it was trained or re-used."""

    record: Record
    reused: bool
    reason: str


@dataclass(frozen=True)
class Row:
    """One case, as small as it can travel."""

    entry: str
    name: str
    task: str
    variant: str
    profile: str
    seed: int
    status: str
    cause: str
    accuracy: float | None
    floor: float | None
    ceiling: float | None
    score: float | None
    seconds: float
    stem: str
    verb: str
    reason: str
    expected_fail: bool
    splits: Mapping[str, float]
    """Score on each test split."""
    losses: tuple[float, ...] = ()
    """The learning curve of a case that failed, in nats."""
    steps_to_bar: int | None = None
    """The first validation at the bar."""


@dataclass(frozen=True)
class Line:
    """One task of one entry, over its seeds."""

    entry: str
    task: str
    variant: str
    rows: tuple[Row, ...]

    def mean(self, figure: str) -> float | None:
        """Mean of a figure over the seeds; None where a seed has none."""
        values = [getattr(row, figure) for row in self.rows]
        return None if None in values else fmean(values)

    @property
    def splits(self) -> dict[str, float]:
        """Mean score over the seeds on each test split; empty where a seed has none."""
        names = self.rows[0].splits if all(row.splits for row in self.rows) else ()
        return {name: fmean(row.splits[name] for row in self.rows) for name in names}

    @property
    def bar(self) -> float | None:
        """The bar on the score, where the profile has one."""
        bar = bar_for(self.task, self.rows[0].profile, self.variant)
        return bar.bar if bar else None

    @property
    def z(self) -> float | None:
        """Standard errors of the mean score above the bar."""
        bar = bar_for(self.task, self.rows[0].profile, self.variant)
        score = self.mean("score")
        if bar is None or score is None:
            return None
        return z_score(score, bar.bar, len(self.rows), bar.sigma)

    @property
    def verdict(self) -> str:
        """pass or fail by the mean score; the worst other status where a seed has no score."""
        broken = [row.status for row in self.rows if row.status not in ("pass", "fail")]
        if broken:
            return broken[0]
        score = self.mean("score")
        if self.bar is None or score is None:
            return "fail" if any(row.status == "fail" for row in self.rows) else "pass"
        if score >= self.bar:
            return "pass"
        return "fail (expected)" if self.rows[0].expected_fail else "fail"


def row(outcome: Outcome, expected_fail: bool) -> dict[str, Any]:
    """The row of an outcome, as JSON-able data."""
    record, identity = outcome.record, outcome.record.identity
    return {
        "entry": identity.entry,
        "name": record.entry.name,
        "task": identity.task,
        "variant": identity.variant,
        "profile": identity.profile,
        "seed": identity.seed,
        "status": record.status,
        "cause": record.cause,
        "accuracy": record.accuracy,
        "floor": record.floor,
        "ceiling": record.ceiling,
        "score": record.score,
        "seconds": record.seconds.get("fit", 0.0),
        "steps_to_bar": steps_to_bar(record),
        "stem": identity.stem,
        "verb": "re-used" if outcome.reused else "evaluated" if record.from_saved else "trained",
        "reason": outcome.reason,
        "expected_fail": expected_fail,
        "losses": [round(point.loss, 4) for point in record.curve if record.status == "fail"],
        "splits": {e.split: score(e.accuracy, e.floor, e.ceiling) for e in record.evaluations},
    }


def row_of(report: pytest.TestReport) -> Row | None:
    """The row that a test report carries, if it is one of ours."""
    for name, value in report.user_properties:
        if name == PROPERTY:
            return Row(**json.loads(str(value)))
    return None


def lines(rows: Iterable[Row]) -> list[Line]:
    """Rows grouped by entry, task and variant, seeds in order."""

    def group(row: Row) -> tuple[str, str, str]:
        return row.entry, row.task, row.variant

    ordered = sorted(rows, key=lambda row: (*group(row), row.seed))
    return [Line(*key, tuple(found)) for key, found in groupby(ordered, key=group)]
