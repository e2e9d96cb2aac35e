"""What came out of a sweep: a CSV of every cell, the best of each value, learning-rate plateaus."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from selectivbench.metrics import score
from selectivbench.record import Record
from selectivbench.stats import Mean, mean
from selectivbench.sweep.choice import Group, Point, grouped, selection, split, validation_figure
from selectivbench.sweep.drive import LOST
from selectivbench.sweep.file import Choice, Sweep
from selectivbench.sweep.folder import Folder
from selectivbench.sweep.grid import Cell
from selectivbench.sweep.runs import Ground, runs

BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Row:
    """One cell and what became of it.

    status: of its record, or how it ended without one (its worker died, or it raised before there was
    any); empty while it is to come.
    """

    cell: Cell
    key: str
    record: Record | None
    status: str = ""

    @property
    def figures(self) -> tuple[float | None, float | None]:
        """Test figure and score: of the cell's own test split where it stands for one."""
        record = self.record
        if record is None or self.cell.evaluation is None:
            return (record.accuracy, record.score) if record else (None, None)
        for part in record.evaluations:
            if part.split == self.cell.evaluation:
                return part.accuracy, score(part.accuracy, part.floor, part.ceiling)
        return None, None


def rows(sweep: Sweep, ground: Ground) -> Iterator[Row]:
    """Every cell with its record, in the order of the file."""
    folder = Folder(ground.root)
    ended = folder.known()
    if folder.is_driven():  # a lost cell may still be given out again
        ended = {key: status for key, status in ended.items() if status != LOST}
    for cell, run in runs(sweep, ground):
        text = folder.read(run.key)
        record = Record.from_json(text) if text else None
        yield Row(cell, run.key, record, record.status if record else ended.get(run.key, ""))


def groups_of(found: Iterable[Row], choice: Choice) -> list[Group]:
    """The candidates of each point, and which of them is chosen."""
    return grouped(((row.cell, row.record, bool(row.status)) for row in found), choice)


def chosen_keys(found: Iterable[Row], groups: Iterable[Group], choice: Choice) -> frozenset[str]:
    """Keys of the records that were chosen, all seeds of each."""
    best = {(g.submission, g.place): g.best.values for g in groups if g.best is not None}
    return frozenset(
        row.key
        for row in found
        for place, values in [split(row.cell, choice)]
        if best.get((row.cell.submission.stem, place)) == values
    )


def mark(found: Iterable[Row], groups: Iterable[Group], choice: Choice, folder: Folder) -> int:
    """Write the choice into the records that were chosen, and out of those that no longer are."""
    of_place = {(g.submission, g.place): g for g in groups}
    changed = 0
    for row in found:
        place, values = split(row.cell, choice)
        group = of_place[row.cell.submission.stem, place]
        best = group.best
        said = selection(group, choice) if best is not None and best.values == values else None
        if row.record is not None and row.record.selection != said:
            folder.write(row.key, replace(row.record, selection=said).to_json())
            changed += 1
    return changed


def to_csv(found: Iterable[Row], sweep: Sweep, chosen: frozenset[str]) -> str:
    """One line a cell; empty where a figure is not there."""
    text = io.StringIO()
    lines = [_line(row, sweep, row.key in chosen) for row in found]
    writer = csv.DictWriter(text, lines[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _line(row: Row, sweep: Sweep, chosen: bool) -> dict[str, Any]:
    cell, record = row.cell, row.record
    figure, test_score = row.figures
    return {
        "submission": cell.submission.stem,
        "task": cell.task,
        "profile": cell.profile,
        "seed": cell.seed,
        **{axis: cell.varied[axis] for axis in sweep.axes},
        "status": row.status,
        sweep.choice.by: validation_figure(record, sweep.choice.by) if record else None,
        "accuracy": figure,
        "score": test_score,
        "parameters": record.parameters if record else None,
        "step_seconds": record.seconds.get("step") if record else None,
        "fit_seconds": record.seconds.get("fit") if record else None,
        "chosen": "yes" if chosen else "no",
        "key": row.key,
    }


@dataclass(frozen=True)
class Best:
    """At one value of an axis: the candidate that validation prefers, and its test figures."""

    submission: str
    axis: str
    value: object
    point: Point
    test: Mean


def best_of_values(found: Iterable[Row], groups: list[Group], sweep: Sweep) -> list[Best]:
    """For each submission and value, the best point that has it, by the mean over seeds."""
    tests: dict[tuple[str, Point], list[float]] = defaultdict(list)
    for row in found:
        place, values = split(row.cell, sweep.choice)
        if (figure := row.figures[0]) is not None:
            tests[row.cell.submission.stem, (*place, *values)].append(figure)
    leading: dict[tuple[str, str, object], tuple[float, Best]] = {}
    for group in groups:
        for candidate in group.candidates.values():
            point = (*group.place, *candidate.values)
            figures = tests.get((group.submission, point))
            if candidate.mean is None or not figures:
                continue
            for axis, value in point:
                best = Best(group.submission, axis, value, point, mean(figures))
                before = leading.get((group.submission, axis, value))
                if before is None or before[0] < candidate.mean.value:
                    leading[group.submission, axis, value] = candidate.mean.value, best
    return [best for _, best in leading.values()]


@dataclass(frozen=True)
class Plateau:
    """Validation figure against learning rate at one place, the best of the other chosen axes."""

    submission: str
    place: Point
    figures: tuple[tuple[float, Mean], ...]
    of_seeds: tuple[tuple[float, ...], ...] = ()
    """The single figures behind each mean."""

    @property
    def flat(self) -> tuple[float, float]:
        """The rates around the best one that are within its standard error (or within 0.01)."""
        best = max(range(len(self.figures)), key=lambda i: self.figures[i][1].value)
        top = self.figures[best][1]
        least = top.value - max(top.error, 0.01)
        low = high = best
        while low and self.figures[low - 1][1].value >= least:
            low -= 1
        while high + 1 < len(self.figures) and self.figures[high + 1][1].value >= least:
            high += 1
        return self.figures[low][0], self.figures[high][0]

    @property
    def spark(self) -> str:
        """A bar for each rate, from 0 to 1."""
        values = [m.value for _, m in self.figures]
        return "".join(BARS[min(7, max(0, int(value * 8)))] for value in values)


def plateaus(groups: Iterable[Group]) -> list[Plateau]:
    """One for each place where at least two learning rates have figures."""
    found = []
    for group in groups:
        best: dict[float, tuple[Mean, tuple[float, ...]]] = {}
        for candidate in group.candidates.values():
            rate, figure = dict(candidate.values).get("lr"), candidate.mean
            if rate is None or figure is None:
                continue
            if float(rate) not in best or best[float(rate)][0].value < figure.value:
                seeds = tuple(f for f in candidate.figures.values() if f is not None)
                best[float(rate)] = figure, seeds
        if len(best) > 1:
            means = tuple((rate, best[rate][0]) for rate in sorted(best))
            of_seeds = tuple(best[rate][1] for rate in sorted(best))
            found.append(Plateau(group.submission, group.place, means, of_seeds))
    return found
