"""Which candidate is best, by validation figures alone, for each point of the other axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from selectivbench.record import Record
from selectivbench.sizes import Size
from selectivbench.stats import Mean, mean
from selectivbench.sweep.file import Choice
from selectivbench.sweep.grid import Cell

Point = tuple[tuple[str, Size], ...]
"""Axes and values, in the order of the file."""


@dataclass
class Candidate:
    """One point of the chosen axes: its validation figure for each seed, None where it has none."""

    values: Point
    figures: dict[int, float | None] = field(default_factory=dict)

    @property
    def mean(self) -> Mean | None:
        """Over the seeds; none where one of them has no figure: it failed, or is still to come."""
        figures = [figure for figure in self.figures.values() if figure is not None]
        return mean(figures) if figures and len(figures) == len(self.figures) else None


@dataclass
class Group:
    """All candidates of one submission at one point of the other axes."""

    submission: str
    place: Point
    candidates: dict[Point, Candidate] = field(default_factory=dict)
    open: int = 0
    """Cells that have not ended; nothing is chosen before they have."""

    @property
    def best(self) -> Candidate | None:
        """The highest mean; the first in the file's order where two are equal."""
        able = [c for c in self.candidates.values() if c.mean is not None]
        if self.open or not able:
            return None
        return max(able, key=lambda candidate: candidate.mean.value if candidate.mean else 0.0)


def validation_figure(record: Record, by: str) -> float | None:
    """The last validation figure of a learning curve, or its best one; larger is better."""
    figures = [point.accuracy for point in record.curve if point.accuracy is not None]
    if not figures:
        return None
    return figures[-1] if by == "validation" else max(figures)


def grouped(rows: Iterable[tuple[Cell, Record | None, bool]], choice: Choice) -> list[Group]:
    """Groups in the order of the cells, each with its record and whether it has ended.

    One that ended without a record has no figure, like one that failed: its candidate is not chosen,
    and the others do not wait for it.
    """
    groups: dict[tuple[str, Point], Group] = {}
    for cell, record, ended in rows:
        place, values = split(cell, choice)
        stem = cell.submission.stem
        group = groups.setdefault((stem, place), Group(stem, place))
        candidate = group.candidates.setdefault(values, Candidate(values))
        figure = validation_figure(record, choice.by) if record else None
        candidate.figures[cell.seed] = figure
        group.open += not ended
    return list(groups.values())


def split(cell: Cell, choice: Choice) -> tuple[Point, Point]:
    """The point of a cell on the axes that are not chosen, and on those that are."""
    items = cell.varied.items()
    return (
        tuple((axis, value) for axis, value in items if axis not in choice.axes),
        tuple((axis, value) for axis, value in items if axis in choice.axes),
    )


def selection(group: Group, choice: Choice) -> Mapping[str, Any] | None:
    """What a chosen record says of the choice; None where nothing is chosen yet."""
    best = group.best
    if best is None or not choice.axes:
        return None
    return {
        "by": choice.by,
        "chosen": dict(best.values),
        "candidates": [
            {**dict(c.values), "figure": c.mean and round(c.mean.value, 6), "seeds": len(c.figures)}
            for c in group.candidates.values()
        ],
    }
