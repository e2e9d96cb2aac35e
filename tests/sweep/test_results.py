"""What is chosen, and by what; what stands in the tables. Records are made, not trained."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from selectivbench.record import Evaluation, Point, Record
from selectivbench.sweep import commands, file, results, tables
from selectivbench.sweep.changes import described
from selectivbench.sweep.choice import validation_figure
from selectivbench.sweep.folder import Folder
from selectivbench.sweep.grid import Cell
from selectivbench.sweep.runs import runs

GRID = """
task = "selective_copy"
profile = "smoke"
submissions = ["linear.py"]
seeds = [1, 2]

[grid]
width = [16, 32]
lr = [1e-3, 3e-3, 1e-2]

[choose]
axes = ["lr"]
"""
VALIDATION: Mapping[tuple[int, float], tuple[float, float]] = {
    (16, 1e-3): (0.50, 0.52),
    (16, 3e-3): (0.70, 0.72),
    (16, 1e-2): (0.71, 0.69),
    (32, 1e-3): (0.90, 0.10),
    (32, 3e-3): (0.60, 0.62),
    (32, 1e-2): (0.20, 0.20),
}
"""Of each seed. The test figures go the other way, so that looking at them would show."""


class Made:
    """A sweep whose cells have made records."""

    def __init__(self, path: Path, a_record: Record) -> None:
        self.path, self.a_record = path, a_record
        self.sweep = file.read(path)
        self.ground = commands.ground_of(self.sweep, path.parent / "out")
        self.folder = Folder(self.ground.root)
        self.folder.prepare(described(self.sweep))

    def write(self, of: Callable[[Cell], Record | None]) -> None:
        for cell, run in runs(self.sweep, self.ground):
            if (record := of(cell)) is not None:
                self.folder.write(run.key, record.to_json())

    def record(self, cell: Cell) -> Record:
        at = (int(cell.varied["width"]), float(cell.varied["lr"]))
        figure = VALIDATION[at][cell.seed - 1]
        curve = (Point(1, 2.0, 0.99), Point(2, 1.0, figure))
        return replace(self.a_record, curve=curve, accuracy=1.0 - figure)

    def chosen(self) -> dict[int, float]:
        groups = results.groups_of(results.rows(self.sweep, self.ground), self.sweep.choice)
        return {
            int(dict(group.place)["width"]): float(dict(group.best.values)["lr"])
            for group in groups
            if group.best is not None
        }


@pytest.fixture
def made(sweep_file: Callable[..., Path], a_record: Record) -> Made:
    return Made(sweep_file(GRID, "grid.toml"), a_record)


def test_the_best_mean_over_the_seeds_by_validation_is_chosen(made: Made) -> None:
    made.write(made.record)
    assert made.chosen() == {16: 3e-3, 32: 3e-3}


def test_nothing_is_chosen_while_a_cell_is_to_come(made: Made) -> None:
    to_come = {"width": 16, "lr": 1e-3}  # not even the best
    made.write(lambda c: None if c.varied == to_come and c.seed == 2 else made.record(c))
    assert made.chosen() == {32: 3e-3}


def test_a_candidate_that_failed_on_one_seed_is_not_chosen(made: Made) -> None:
    def of(cell: Cell) -> Record:
        failed = cell.varied == {"width": 16, "lr": 3e-3} and cell.seed == 2
        return replace(made.record(cell), curve=(), status="oom") if failed else made.record(cell)

    made.write(of)
    assert made.chosen()[16] == 1e-2


def ended_without_a_record(made: Made, status: str) -> None:
    """The best candidate of width 16, on one seed; the others have records."""
    (lost,) = (
        run.key
        for cell, run in runs(made.sweep, made.ground)
        if (cell.varied, cell.seed) == ({"width": 16, "lr": 3e-3}, 2)
    )
    made.write(made.record)
    made.folder.path(lost).unlink()
    with made.folder.driven() as log:
        log.note(lost, status)


@pytest.mark.parametrize("status", ["lost", "error"])
def test_a_cell_that_ended_without_a_record_is_not_waited_for(made: Made, status: str) -> None:
    ended_without_a_record(made, status)
    assert made.chosen() == {16: 1e-2, 32: 3e-3}
    commands.summary(made.path, made.ground.root)
    lines = list(csv.DictReader(io.StringIO((made.ground.root / "results.csv").read_text())))
    assert [line["status"] for line in lines].count(status) == 1


def test_a_lost_cell_is_waited_for_while_it_may_be_run_again(made: Made) -> None:
    ended_without_a_record(made, "lost")
    with made.folder.driven():
        assert made.chosen() == {32: 3e-3}


def test_the_choice_is_in_the_records_that_were_chosen_and_in_no_other(made: Made) -> None:
    made.write(made.record)
    commands.summary(made.path, made.ground.root)
    marked = {
        (row.cell.varied["width"], row.cell.varied["lr"], row.cell.seed): row.record.selection
        for row in results.rows(made.sweep, made.ground)
        if row.record is not None
    }
    assert {at for at, said in marked.items() if said is not None} == {
        (16, 3e-3, 1),
        (16, 3e-3, 2),
        (32, 3e-3, 1),
        (32, 3e-3, 2),
    }
    said = marked[16, 3e-3, 1]
    assert said is not None
    assert (said["by"], said["chosen"]) == ("validation", {"lr": 3e-3})
    assert said["candidates"][0] == {"lr": 1e-3, "figure": 0.51, "seeds": 2}


def test_a_choice_that_no_longer_holds_is_taken_out(made: Made) -> None:
    made.write(made.record)
    commands.summary(made.path, made.ground.root)

    def other(cell: Cell) -> Record:
        better = cell.varied == {"width": 16, "lr": 1e-2}
        curve = (Point(2, 1.0, 0.95),) if better else made.record(cell).curve
        before = next(r for r in results.rows(made.sweep, made.ground) if r.cell == cell).record
        assert before is not None
        return replace(before, curve=curve)

    made.write(other)
    commands.summary(made.path, made.ground.root)
    chosen = {
        (row.cell.varied["width"], row.cell.varied["lr"])
        for row in results.rows(made.sweep, made.ground)
        if row.record is not None and row.record.selection is not None
    }
    assert chosen == {(16, 1e-2), (32, 3e-3)}


def test_the_csv_has_a_line_for_every_cell_and_no_figure_where_there_is_none(made: Made) -> None:
    made.write(lambda cell: None if cell.seed == 2 else made.record(cell))
    commands.summary(made.path, made.ground.root)
    lines = list(csv.DictReader(io.StringIO((made.ground.root / "results.csv").read_text())))
    assert len(lines) == 12
    first, second = lines[:2]
    assert (first["width"], first["lr"], first["seed"]) == ("16", "0.001", "1")
    assert (first["validation"], first["accuracy"], first["status"]) == ("0.5", "0.5", "pass")
    assert (second["status"], second["validation"], second["accuracy"]) == ("", "", "")
    assert {line["chosen"] for line in lines} == {"no"}


def test_best_of_each_value_with_its_interval(made: Made) -> None:
    made.write(made.record)
    found = list(results.rows(made.sweep, made.ground))
    best = results.best_of_values(found, results.groups_of(found, made.sweep.choice), made.sweep)
    at = {(b.axis, b.value): b for b in best}
    assert dict(at["width", 16].point) == {"width": 16, "lr": 3e-3}
    assert at["width", 16].test.value == pytest.approx(0.29)
    assert at["width", 16].test.half == pytest.approx(12.706 * 0.01)  # t of two seeds
    assert dict(at["lr", 1e-3].point) == {"width": 16, "lr": 1e-3}  # .51 before .50
    assert "0.290 ± 0.127 (n=2)" in tables.best_table(best)


def test_plateaus(made: Made) -> None:
    made.write(made.record)
    groups = results.groups_of(results.rows(made.sweep, made.ground), made.sweep.choice)
    narrow, wide = results.plateaus(groups)
    assert narrow.flat == (3e-3, 1e-2)
    assert wide.flat == (3e-3, 3e-3)
    assert narrow.spark == "▅▆▆"
    text = tables.plateau_csv([narrow])
    assert text.splitlines()[1].startswith("linear,width=16,0.001,0.51,")


def test_a_cell_of_one_test_split_has_the_figures_of_that_split(made: Made) -> None:
    parts = (Evaluation("test-gap10", 0.9, 0.2, 1.0), Evaluation("test-gap50", 0.4, 0.2, 1.0))
    cell = next(cell for cell, _ in runs(made.sweep, made.ground))
    record = replace(made.a_record, evaluations=parts)
    row = results.Row(replace(cell, evaluation="test-gap50"), "k", record)
    assert row.figures == (0.4, pytest.approx(0.25))


def test_validation_figures(a_record: Record) -> None:
    curve = (Point(1, 1.0, 0.8), Point(2, 1.0, 0.6), Point(3, 1.0))
    record = replace(a_record, curve=curve)
    assert validation_figure(record, "validation") == 0.6
    assert validation_figure(record, "best_validation") == 0.8
    assert validation_figure(replace(a_record, curve=()), "validation") is None


def test_the_plateaus_are_drawn_with_their_seeds(made: Made) -> None:
    pytest.importorskip("matplotlib", reason="the extra `figures` is not installed")
    made.write(made.record)
    said = commands.summary(made.path, made.ground.root, plot=True)
    assert "plateaus.svg" in said
    assert "width=16" in (made.ground.root / "plateaus.svg").read_text()
    lines = list(csv.reader(io.StringIO((made.ground.root / "plateaus.csv").read_text())))
    assert lines[1] == ["width=16", "linear", "0.001", "0.51", "0.5", "0.52", "2"]
