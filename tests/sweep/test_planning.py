"""Laws through measured steps, loads of cells, and the driver under a simulated cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import astuple, replace
from pathlib import Path

import pytest

from selectivbench.errors import UsageError
from selectivbench.machine import resolve
from selectivbench.record import Point, Record
from selectivbench.sweep import file, timing
from selectivbench.sweep.estimate import Gpu, Measured
from selectivbench.sweep.laws import Law, Laws, laws
from selectivbench.sweep.load import Load, Loads, Tokens
from selectivbench.sweep.plan import Question, cell_seconds, dry_run, plan
from selectivbench.sweep.runs import Ground, runs
from selectivbench.sweep.simulate import Machines, simulate
from selectivbench.sweep.storage import stored
from selectivbench.sweep.timing import Step
from tests.sweep.conftest import TINY

CELLS = 2_000
LAWS = Laws(seconds=Law(0.0, 1e-9), parameters=Law(0.0, 12.0))


def a_step(width: int, seconds: float, length: int = 100) -> Step:
    return Step(
        *("linear", "selective_copy"),
        *(width, 2, 100, length, seconds, 24 * width**2, 0),
        *("cpu", "a processor"),
    )


@pytest.mark.parametrize(
    ("values", "law"),
    [
        ([8.0, 24.0], Law(2.0, 1.0)),
        ([4.0, 16.0], Law(0.0, 1.0)),
        ([4.0, 17.0], Law(0.0, 1.029358)),  # a negative part would give less than nothing
        ([4.0, 7.0], Law(1.858407, 0.0)),
    ],
)
def test_a_law_goes_through_its_points(values: list[float], law: Law) -> None:
    assert astuple(Law.through([2, 4], values)) == pytest.approx(astuple(law), rel=1e-6)


SIZES = [(2, 10), (2, 40), (4, 10), (4, 40)]


@pytest.mark.parametrize("law", [Law(2.0, 1.0, 0.5), Law(0.0, 1.0, 0.25), Law(3.0, 1.0, 0.0)])
def test_what_grows_with_the_length_is_told_from_what_does_not(law: Law) -> None:
    widths, lengths = zip(*SIZES, strict=True)
    values = [law.at(width, length) for width, length in SIZES]
    assert astuple(Law.through(widths, values, lengths)) == pytest.approx(astuple(law))


def test_steps_that_are_quicker_when_long_do_not_pay_for_length() -> None:
    widths, lengths = zip(*SIZES, strict=True)
    law = Law.through(widths, [3.0, 2.9, 8.0, 7.9], lengths)
    assert law.pairs == 0.0
    assert law.at(4, 4_000) == law.at(4) == pytest.approx(7.95, rel=0.01)


def test_laws_scale_a_measured_step_to_itself() -> None:
    steps = [a_step(32, 0.02), a_step(64, 0.06), a_step(32, 0.018, 25), a_step(64, 0.056, 25)]
    seconds = laws(steps)["linear", "selective_copy"].seconds
    for step in steps:
        of_all = seconds.at(step.width, step.length) * step.layers * step.tokens
        assert of_all == pytest.approx(step.seconds)


def test_step_times_are_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "step_times.json"
    timing.write(path, [a_step(32, 0.02)])
    assert timing.read(path) == [a_step(32, 0.02)]
    timing.add(path, [a_step(16, 0.01), a_step(32, 0.03)])
    assert timing.read(path) == [a_step(16, 0.01), a_step(32, 0.03)]
    path.write_text("[{}]")
    with pytest.raises(UsageError, match="`selectivbench sweep measure` writes one"):
        timing.read(path)


def test_the_load_of_a_cell_is_its_steps_and_its_held_out_data(
    sweep_file: Callable[..., Path],
) -> None:
    sweep = file.read(sweep_file())
    _, run = next(runs(sweep, Ground(Path("out"))))
    load = Loads().of(run)
    data = run.training.job(resolve("cpu")).dataset  # the benchmark's own word on sizes
    copy = data(run.training.job(resolve("cpu")).tasks[0])
    length = copy.max_length
    assert (load.width, load.layers, load.steps) == (16, 2, 2)
    assert load.trained == Tokens.of(2 * 4, length)
    assert load.predicted == Tokens.of(2 * copy.sizes["validation"] + copy.sizes["test"], length)
    assert (load.trained.count, load.trained.length) == (2 * 4 * length, length)


def test_a_cell_that_reuses_a_model_trains_nothing_and_predicts_its_split(
    sweep_file: Callable[..., Path],
) -> None:
    sweep_file('task = "noisy_gaps"\nprofile = "smoke"\nsubmissions = ["linear.py"]\nsave = true')
    path = sweep_file(
        'task = "gap_extrapolation"\nprofile = "smoke"\nsubmissions = ["linear.py"]\n'
        'reuse = "tiny.toml"\n[grid]\nevaluation = ["test-gap10", "test-gap100"]',
        "gaps.toml",
    )
    loads = Loads()
    found = [loads.of(run) for _, run in runs(file.read(path), Ground(Path("o"), Path("r")))]
    assert {load.trained for load in found} == {Tokens()}
    assert [load.predicted.count for load in found] == [32 * 8 * 11, 32 * 8 * 101]
    assert [load.predicted.length for load in found] == [8 * 11, 8 * 101]


def test_seconds_of_a_measured_device_and_of_an_assumed_one() -> None:
    load = Load(100, 8, steps=10, trained=Tokens.of(60, 100), predicted=Tokens.of(30, 100))
    assert Measured().seconds(load, LAWS) == pytest.approx(1e-5 * 8 * 7_000)
    operations = 6 * 12 * 100**2 * 8 * 7_000
    assert Gpu(1.0, floor=0.0).seconds(load, LAWS) == pytest.approx(operations / 1e12)
    assert Gpu(1.0, floor=1.0).seconds(load, LAWS) == pytest.approx(10 + operations / 7e12)


def test_attention_costs_what_grows_with_the_length() -> None:
    """On a measured device by its law; on an assumed one by the operations on keys and values."""
    measured = replace(LAWS.seconds, pairs=1e-11)  # of 10,000 steps: as much again
    attending = replace(LAWS, seconds=measured, state=Law(0.0, 0.0, 2.0))
    load = Load(100, 8, steps=1, trained=Tokens.of(2, 100), predicted=Tokens.of(3, 10_000))
    assert Measured().seconds(load, attending) == pytest.approx(
        8 * 1e-5 * (1.01 * 200 + 2 * 30_000 / 3)
    )
    trained = (12 * 100**2 + 2 * 100 * 100) * 200
    predicted = (12 * 100**2 + 2 * 100 * 10_000) * 30_000 / 3
    assert Gpu(1.0, floor=0.0).seconds(load, attending) == pytest.approx(
        6 * 8 * (trained + predicted) / 1e12
    )


@pytest.mark.parametrize(
    ("states", "pairs"),
    [((640, 1280, 160, 320), 0.2), ((640, 1280, 640, 1280), 0.0), ((0, 0, 0, 0), 0.0)],
)
def test_what_a_state_grows_by_is_seen_in_two_lengths(
    states: tuple[int, ...], pairs: float
) -> None:
    sizes = [(32, 100), (64, 100), (32, 25), (64, 25)]
    steps = [
        replace(a_step(width, 0.01, length), state=state)
        for (width, length), state in zip(sizes, states, strict=True)
    ]
    found = laws(steps)["linear", "selective_copy"]
    assert found.state.pairs == pytest.approx(pairs)
    assert found.factors(32, 50) == pytest.approx(12 * 32**2 + pairs * 32 * 50)


def test_simulated_failures_lose_no_cell_and_the_driver_is_quick(tmp_path: Path) -> None:
    machines = Machines(slots=64, worker_loss=0.01, node_loss=0.001)
    done = simulate([600.0] * CELLS, machines, tmp_path / "sweep")
    assert (done.tally.done, done.tally.failed) == (CELLS, 0)
    assert done.tally.lost > CELLS // 200
    records = {
        json.loads(path.read_text())["key"]
        for path in (tmp_path / "sweep" / "records").glob("*/*.json")
    }
    assert len(records) == CELLS
    assert done.driver_ms < 50
    assert 0.9 < done.use < 1


def test_the_clock_of_a_simulation_is_right_where_it_can_be_said(tmp_path: Path) -> None:
    """Nothing fails and all take as long: so many rounds, but for the spread of times."""
    done = simulate([3600.0] * 640, Machines(slots=64, overhead=0.0), tmp_path / "sweep")
    assert done.hours == pytest.approx(10, rel=0.05)
    assert done.tally.lost == 0


def test_one_long_cell_is_as_long_on_any_number_of_machines(tmp_path: Path) -> None:
    done = simulate([36_000.0, *[60.0] * 50], Machines(slots=512), tmp_path / "sweep")
    assert done.hours == pytest.approx(10, rel=0.35)
    assert done.use < 0.1


def test_a_dry_run_counts_and_says_where_its_steps_were_measured(
    sweep_file: Callable[..., Path],
) -> None:
    path = sweep_file()
    sweep, steps = file.read(path), path.with_name("step_times.json")
    assert dry_run(sweep, steps) == (
        f"tiny: 4 runs; no step times in {steps}: `selectivbench sweep measure` makes them"
    )
    timing.write(steps, [a_step(16, 3600.0)])
    said = dry_run(sweep, steps)
    hours = sum(cell_seconds(sweep, Measured(), laws(timing.read(steps)))) / 3600
    assert f"tiny: 4 runs, {hours:,.0f} device-hours" in said
    assert "measured on cpu (a processor)" in said
    timing.write(steps, [])
    with pytest.raises(UsageError, match="measured submission: got 'linear on selective_copy'"):
        dry_run(sweep, steps)


def test_a_plan_says_what_was_measured_and_what_was_assumed(
    sweep_file: Callable[..., Path],
) -> None:
    first, second = sweep_file(), sweep_file(TINY, "other.toml")
    steps = first.with_name("step_times.json")
    timing.write(steps, [a_step(16, 0.01), a_step(32, 0.03)])
    said = plan(Question((first, second), steps, (2,)))
    assert said.startswith("Steps measured on cpu, a processor, scaled")
    assert [line.split()[:2] for line in said.splitlines()[3:6]] == [
        ["tiny", "4"],
        ["other", "4"],
        ["together", "8"],
    ]
    assert said.splitlines()[-1].startswith("on the disk: 8 records 4")
    assumed = plan(Question((first,), steps, (2,), Gpu(40.0)))
    assert assumed.startswith("Assumed, not measured: 40 TFLOP/s sustained, no step below 30 ms.")


def test_a_measured_step_is_busy_seconds_of_its_own_sizes(sweep_file: Callable[..., Path]) -> None:
    steps = list(timing.measure(file.read(sweep_file()), (32,), batch_size=4, device="cpu"))
    for step in steps:
        assert (step.submission, step.task) == ("linear", "selective_copy")
        assert (step.width, step.layers, step.tokens) == (32, 2, 4 * 20)
        assert 0 < step.seconds < 10
        assert step.parameters > 32**2
    assert [step.length for step in steps] == [20, 5]


def test_what_is_stored_is_about_what_a_record_takes(
    sweep_file: Callable[..., Path], a_record: Record
) -> None:
    sweep = file.read(sweep_file())
    laws_of_it = {("linear", "selective_copy"): LAWS}
    kept = stored((run for _, run in runs(sweep, Ground(Path("o")))), laws_of_it, save=True)
    points = tuple(Point(10_000 + i, 1.0 / 3.0, 2.0 / 3.0) for i in range(22))
    real = len(replace(a_record, curve=points).to_json())
    assert kept.cells == 4
    assert kept.records / 4 == pytest.approx(real, rel=0.5)
    assert kept.curves / kept.cells == pytest.approx(22 * 85)
    assert kept.models == 4 * 4 * 12 * 16**2 * 2
    assert kept.checkpoint == 3 * 4 * 12 * 16**2 * 2
