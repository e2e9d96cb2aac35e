"""The reference's five experiment files: exactly its grids, with submissions and tasks that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from selectivbench.sweep import file
from selectivbench.sweep.estimate import Gpu
from selectivbench.sweep.grid import cells, count
from selectivbench.sweep.laws import laws
from selectivbench.sweep.load import plan_of, trained_by
from selectivbench.sweep.plan import cell_seconds
from selectivbench.sweep.runs import Ground, runs
from selectivbench.sweep.timing import read

SWEEPS = Path(__file__).parents[2] / "sweeps"
RUNS = {
    "task1_complexity": 10_584,
    "task1_model_size": 1_512,
    "task2": 1_512,
    "task3": 1_344,
    "task4": 896,
}
WIDTHS = (256, 384, 512, 648, 768, 960, 1024, 1152, 1296)


def test_the_files_are_the_five_and_their_runs_are_15848() -> None:
    found = {path.stem: count(file.read(path)) for path in SWEEPS.glob("*.toml")}
    assert found == RUNS
    assert sum(found.values()) == 15_848


@pytest.mark.parametrize("name", RUNS)
def test_every_cell_is_one_of_its_own_and_can_be_built(name: str) -> None:
    sweep = file.read(SWEEPS / f"{name}.toml")
    keys = set()
    for cell in cells(sweep):
        keys.add((cell.submission, tuple(cell.varied.items()), cell.seed))
        assert cell.sizes["layers"] == 8
        state = 64 if name == "task3" or (name, cell.submission.stem) in SMALL else 128
        assert cell.sizes["d_state"] == state
    assert len(keys) == RUNS[name]


SMALL = {(name, "mamba") for name in ("task1_complexity", "task2", "task4")}
"""Where one layer's state is 64 and the others' 128."""


@pytest.mark.parametrize(
    ("name", "widths", "rates"),
    [
        ("task1_complexity", WIDTHS, (5e-4, 1e-3, 2e-3)),
        ("task1_model_size", WIDTHS, (5e-4, 1e-3, 2e-3)),
        ("task2", WIDTHS, (5e-4, 1e-3, 2e-3)),
        ("task3", WIDTHS[:-1], (5e-4, 1e-3, 2e-3)),
        ("task4", WIDTHS[:2], (5e-4, 1e-3)),
    ],
)
def test_the_axes_are_as_published(
    name: str, widths: tuple[int, ...], rates: tuple[float, ...]
) -> None:
    sweep = file.read(SWEEPS / f"{name}.toml")
    assert sweep.grid["width"] == widths
    assert sweep.grid["lr"] == rates
    assert sweep.grid["warmup"] == (476, 1000)
    assert (sweep.seeds, len(sweep.submissions)) == ((1, 2, 3, 4), 7)
    assert sweep.choice == file.Choice(("lr", "warmup"), "validation")


def test_a_cell_trains_as_published(tmp_path: Path) -> None:
    sweep = file.read(SWEEPS / "task2.toml")
    _, run = next(runs(sweep, Ground(tmp_path)))
    plan = plan_of(run.training)
    assert (plan.budget.steps, plan.budget.batch_size, plan.budget.warmup) == (3_125, 64, 476)
    assert (plan.model.d_model, plan.model.n_layers, plan.model.dropout) == (256, 8, 0.2)


def test_every_cell_of_the_last_finds_a_training_of_task2(tmp_path: Path) -> None:
    """By everything but the task, which decides what is evaluated and not what is trained."""

    def trainings(name: str, ground: Ground) -> set[tuple[object, ...]]:
        found = runs(file.read(SWEEPS / f"{name}.toml"), ground)
        return {
            (t.submission, t.variant, t.seed, trained_by(t).id, *t.numbers.items())
            for t in (run.training for _, run in found)
        }

    asked = trainings("task4", Ground(tmp_path, tmp_path))
    assert len(asked) == 7 * 2 * 2 * 2 * 4
    assert asked <= trainings("task2", Ground(tmp_path))


def test_committed_steps_cover_every_cell() -> None:
    measured = laws(read(SWEEPS / "step_times.json"))
    for name in RUNS:
        seconds = cell_seconds(file.read(SWEEPS / f"{name}.toml"), Gpu(40.0), measured)
        assert len(seconds) == RUNS[name]
        assert min(seconds) > 0


def test_the_sweep_in_the_readme_is_one(tmp_path: Path) -> None:
    text = (SWEEPS.parent / "README.md").read_text(encoding="utf-8")
    (block,) = (part for part in text.split("```toml\n")[1:] if "[choose]" in part)
    (tmp_path / "submissions").symlink_to(SWEEPS.parent / "submissions")
    path = tmp_path / "mine.toml"
    path.write_text(block.partition("```")[0], encoding="utf-8")
    assert count(file.read(path)) == 2 * 3 * 3 * 3
