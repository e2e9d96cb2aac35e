"""Which charts a page has, with the numbers behind each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from leaderboard.charts import Axes, Dot, Line, Panel, Strip, panels, scatter, strips
from leaderboard.rank import Cell, Standing
from leaderboard.svg import Svg
from leaderboard.tables import to_csv
from leaderboard.view import key_order, level, number_in, task_label
from selectivbench.record import Point, with_variant

Row = TypeVar("Row")


@dataclass(frozen=True)
class Chart:
    """One figure of a page, its file and its numbers.

    path: of the saved files, without their ending, from the site's root.
    """

    id: str
    title: str
    note: str
    path: str
    drawn: Svg
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    @property
    def csv(self) -> str:
        return to_csv(self.columns, self.rows)


@dataclass(frozen=True)
class SplitKind:
    """Test splits that differ by one number, at the end of their names."""

    id: str
    prefix: str
    axis: str
    note: str


SPLITS = (
    SplitKind("gaps", "test-gap", "gap length", "training has gaps of 1 to 10, long of 1 to 14"),
    SplitKind("lengths", "test-", "sequence length", "training is at the shortest or below"),
)


_COSTS: tuple[tuple[str, str, str, Callable[[Standing], float | None]], ...] = (
    ("state", "state size", "floats carried for each layer and sequence", lambda s: s.state_size),
    ("parameters", "parameters", "trained numbers", lambda s: s.parameters),
    (
        "time",
        "seconds to train",
        "the line joins the best for their time",
        lambda s: s.seconds("fit"),
    ),
)


def overview(standings: Sequence[Standing]) -> list[Chart]:
    """Overall score against what it costs, for the best-filled profile and device class."""
    shown = _largest(standings)
    found = [_cost(shown, *cost) for cost in _COSTS]
    return [chart for chart in found if chart is not None]


def _largest(standings: Sequence[Standing]) -> list[Standing]:
    """The standings of the (profile, device class) with the most overall scores."""
    groups: dict[tuple[str, str], list[Standing]] = {}
    for s in standings:
        if s.overall is not None:
            groups.setdefault((s.profile, s.device), []).append(s)
    return max(groups.values(), key=len, default=[])


def _cost(
    standings: Sequence[Standing],
    name: str,
    title: str,
    note: str,
    get: Callable[[Standing], float | None],
) -> Chart | None:
    rows = [
        (s.entry.id, s.entry.name, value, s.overall.value, s.overall.half)
        for s in standings
        if (value := get(s)) and s.overall is not None
    ]
    if not rows:
        return None
    dots = [Dot(label, float(x), y, half) for _, label, x, y, half in rows]
    where = f"{standings[0].profile}, {standings[0].device}"
    label = f"Overall score against {title}, {where}; {len(dots)} entries"
    drawn = scatter(label, dots, Axes(title, "overall score", log=True), front=name == "time")
    return Chart(
        f"chart-{name}",
        f"Overall score against {title}",
        f"{where}; {note}",
        f"charts/{name}",
        drawn,
        ("entry", "name", title.replace(" ", "_"), "overall", "half_interval"),
        tuple(rows),
    )


def of_entry(standing: Standing) -> list[Chart]:
    """Seeds, learning curves and generalization of one standing."""
    cells = [standing.cells[key] for key in sorted(standing.cells, key=key_order)]
    stem = f"charts/{standing.entry.id}-{standing.profile}-{standing.device}"
    own = f"{standing.profile}-{standing.device}"
    found = [_seeds(cells, stem, own), _curves(cells, stem, own)]
    for variant, same in by_variant(cells, lambda cell: cell.variant).items():
        found += [_splits(same, stem, own, kind, variant) for kind in SPLITS]
    found.append(_ambiguity(cells, stem, own))
    return [chart for chart in found if chart is not None]


def _seeds(cells: Sequence[Cell], stem: str, own: str) -> Chart | None:
    rows = [strip for cell in cells if (strip := _strip(cell)) is not None]
    if not rows:
        return None
    return Chart(
        f"seeds-{own}",
        "Accuracy of each seed",
        "between the memoryless floor and the Bayes ceiling",
        f"{stem}-seeds",
        strips("Accuracy of each seed between floor and ceiling, by task", rows),
        ("task", "seed", "accuracy", "floor", "ceiling", "bar"),
        tuple((r.name, seed, v, r.floor, r.ceiling, r.bar) for r in rows for seed, v in r.seeds),
    )


def _strip(cell: Cell) -> Strip | None:
    seeds = [(c.record.identity.seed, c.record.accuracy) for c in cell.cases]
    known = tuple((seed, value) for seed, value in seeds if value is not None)
    if not known or any(c.record.metric != "accuracy" for c in cell.cases):
        return None
    low, high = level(cell, "floor"), level(cell, "ceiling")
    bar = None
    if cell.bar is not None and low is not None and high is not None:
        bar = low + cell.bar.bar * (high - low)
    middle = sum(value for _, value in known) / len(known)
    return Strip(task_label(cell), known, middle, low, high, bar)


def _curves(cells: Sequence[Cell], stem: str, own: str) -> Chart | None:
    """Validation accuracy where it was measured, else the training loss."""
    read = [(cell, [(c.record.identity.seed, c.curve()) for c in cell.cases]) for cell in cells]
    told = any(p.accuracy is not None for _, seeds in read for _, curve in seeds for p in curve)
    title = "Validation accuracy while training" if told else "Loss while training"
    parts = []
    for cell, seeds in read:
        lines = [Line(f"seed {seed}", _steps(curve, told)) for seed, curve in seeds]
        parts.append(Panel(task_label(cell), tuple(line for line in lines if line.points)))
    parts = [part for part in parts if part.lines]
    if not parts:
        return None
    label = f"{title}, by task and seed"
    drawn = panels(label, parts, Axes("step", "accuracy" if told else "loss"))
    rows = tuple(
        (cell.task, cell.variant, seed, p.step, p.loss, p.accuracy)
        for cell, seeds in read
        for seed, curve in seeds
        for p in curve
    )
    columns = ("task", "variant", "seed", "step", "loss", "accuracy")
    note = "a line for each seed"
    return Chart(f"curves-{own}", title, note, f"{stem}-curves", drawn, columns, rows)


def _steps(curve: Sequence[Point], told: bool) -> tuple[tuple[float, float], ...]:
    if not told:
        return tuple((float(p.step), p.loss) for p in curve)
    return tuple((float(p.step), p.accuracy) for p in curve if p.accuracy is not None)


def by_variant(rows: Iterable[Row], variant_of: Callable[[Row], str]) -> dict[str, list[Row]]:
    """Variants differ in their data, so they are other trainings: no line joins them."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(variant_of(row), []).append(row)
    return found


def _splits(
    cells: Sequence[Cell], stem: str, own: str, kind: SplitKind, variant: str
) -> Chart | None:
    """Accuracy against the number in the names of the splits, floor and ceiling beside it."""
    table = [row for cell in cells for row in split_rows(cell, kind)]
    if len({row[1] for row in table}) < 2:
        return None
    title = with_variant(f"Accuracy against {kind.axis}", variant, ", ")
    return Chart(
        with_variant(f"{kind.id}-{own}", variant, "-"),
        title,
        kind.note,
        with_variant(f"{stem}-{kind.id}", variant, "-"),
        panels(
            title,
            [Panel("", _levelled(table))],
            Axes(kind.axis, "accuracy", log=True),
        ),
        ("task", kind.axis.replace(" ", "_"), "accuracy", "floor", "ceiling"),
        tuple(table),
    )


def split_rows(cell: Cell, kind: SplitKind) -> list[tuple[Any, ...]]:
    """(task, number, accuracy, floor, ceiling), means over seeds, of each split of a kind."""
    groups: dict[int, list[tuple[float, float, float]]] = {}
    for case in cell.cases:
        for part in case.record.evaluations:
            digits = part.split.removeprefix(kind.prefix)
            if part.split.startswith(kind.prefix) and digits.isdecimal() and number_in(digits):
                found = groups.setdefault(number_in(digits) or 0, [])
                found.append((part.accuracy, part.floor, part.ceiling))
    return [(task_label(cell), size, *means(groups[size])) for size in sorted(groups)]


def _ambiguity(cells: Sequence[Cell], stem: str, own: str) -> Chart | None:
    """Accuracy against the ambiguity in the name of the variant."""
    table = [row for cell in cells for row in ambiguity_rows(cell)]
    if len({row[1] for row in table}) < 2:
        return None
    drawn = panels(
        "Accuracy against ambiguity",
        [Panel("", _levelled(table))],
        Axes("ambiguity", "accuracy"),
    )
    return Chart(
        f"ambiguity-{own}",
        "Accuracy against ambiguity",
        "",
        f"{stem}-ambiguity",
        drawn,
        ("task", "ambiguity", "accuracy", "floor", "ceiling"),
        tuple(table),
    )


def ambiguity_rows(cell: Cell) -> list[tuple[Any, ...]]:
    """(task, ambiguity, accuracy, floor, ceiling) of a cell whose variant is amb and a number."""
    ambiguity = number_in(cell.variant) if cell.variant.startswith("amb") else None
    found = [
        (r.accuracy, r.floor, r.ceiling)
        for r in (c.record for c in cell.cases)
        if r.accuracy is not None and r.floor is not None and r.ceiling is not None
    ]
    return [(cell.task, ambiguity, *means(found))] if ambiguity and found else []


def means(rows: Sequence[tuple[float, float, float]]) -> tuple[float, ...]:
    return tuple(sum(column) / len(rows) for column in zip(*rows, strict=True))


def _levelled(table: Sequence[tuple[Any, ...]]) -> tuple[Line, ...]:
    """Accuracy, ceiling and floor as lines over the second column, means of tasks that share it."""
    xs = sorted({row[1] for row in table})
    lines = []
    for name, place in (("accuracy", 2), ("ceiling", 4), ("floor", 3)):
        by_x = [[row[place] for row in table if row[1] == x] for x in xs]
        points = tuple((float(x), sum(v) / len(v)) for x, v in zip(xs, by_x, strict=True))
        lines.append(Line(name, points, level=name != "accuracy"))
    return tuple(lines)
