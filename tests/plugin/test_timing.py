"""Timing cases: their reports, their files, and that nothing is lost without pytest-benchmark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leaderboard.load import load
from pytest_selectivbench import timing_table
from pytest_selectivbench.cases import Plan
from selectivbench.machine import Device, Mode
from selectivbench.profiles import get_profile
from selectivbench.submission import load as load_submission
from selectivbench.timing import Measured, Timing
from tests.plugin.conftest import LINEAR

LSTM = Path(__file__).parents[2] / "submissions" / "lstm.py"
ONLY = ("--selectiv-timing", "-k", "timing and (T16 or T32)")
HOLDING = LINEAR.replace(
    "def forward",
    """def step(self, x, state):
        return self.layer(x), state

    def forward""",
)


def kept(folder: Path) -> list[Timing]:
    """The results that a run left beside its records."""
    files = sorted((folder / ".selectivbench" / "records" / "timings").glob("*.json"))
    return [Timing.from_json(file.read_text()) for file in files]


@pytest.fixture
def report(run, folder) -> dict[str, object]:
    """pytest-benchmark's JSON of a run of the timing cases, whose own output is checked here."""
    (folder / "linear.py").write_text(HOLDING)
    result = run(*ONLY, "--benchmark-json=b.json", "--benchmark-columns=min,median,rounds")
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(
        [
            "*benchmark 'decode, T = 16': 1 tests*",
            "Name (time in *) *Min *Median *Rounds",
            "linear decode T16 *",
            "entry *timed *T *batch *ms *tokens/s */ LSTM */ attention *peak MiB *state B/token",
            "linear *train *16 *16 *",
            "linear *decode *32 *2 *0.0",
            "linear train: time of one sequence grows as T^* (* to *)*(T = 16, 32)",
        ]
    )
    return json.loads((folder / "b.json").read_text())


def test_a_report_says_what_its_times_stand_for(report, folder):
    assert report["machine_info"]["node"] == "redacted"
    (one,) = (b for b in report["benchmarks"] if b["name"] == "linear train T16")
    (file,) = (t for t in kept(folder) if (t.what, t.length) == ("train", 16))
    info = one["extra_info"]
    assert (info["entry"], info["task"], info["profile"]) == ("linear", "timing-train", "smoke")
    assert (info["device_class"], info["verdict"], info["record"]) == ("cpu", "timed", file.key)
    assert (info["length"], info["batch"]) == (16, 16)
    assert info["times_lstm"] == pytest.approx(file.ratio("LSTM"))
    assert info["times_attention"] == pytest.approx(file.ratio("attention"))
    assert one["stats"]["rounds"] == 3
    assert one["stats"]["data"] == pytest.approx(list(file.own.seconds))
    assert one["group"] == "train, T = 16"


def test_times_are_of_the_precision_that_was_asked_for_and_of_no_graph():
    profile, lstm = get_profile("smoke"), load_submission(LSTM)
    gpu, mode = Device("cuda", "NVIDIA-H200"), Mode("bf16", graphs=True)
    plan = Plan((), profile, (), (), gpu, None, True, timing=True, mode=mode)
    found = {job.device_class for job in plan.timings(lstm)}
    assert found == {"NVIDIA-H200+bf16"}


def test_timings_are_no_records(report, folder):  # noqa: ARG001 - the run is the fixture's
    loaded = load([folder / ".selectivbench" / "records"])
    assert not loaded.refused


def test_a_saved_run_can_be_compared(run, folder):
    (folder / "linear.py").write_text(HOLDING)
    one = ("--selectiv-timing", "-k", "timing-forward and T16", "--benchmark-storage=saved")
    run(*one, "--benchmark-save=first").assert_outcomes(passed=1)
    again = run(*one, "--benchmark-compare=0001", "--benchmark-compare-fail=min:100000%")
    again.assert_outcomes(passed=1)
    again.stdout.fnmatch_lines(["linear forward T16 (NOW) *"])
    again.stdout.fnmatch_lines(["linear forward T16 (0001_first) *"])
    slower = run(*one, "--benchmark-compare=0001", "--benchmark-compare-fail=min:-99%")
    assert slower.ret != 0


@pytest.mark.parametrize(
    "plugin", [("--benchmark-disable",), ("-p", "no:benchmark"), ("-n", "1")], ids=str
)
def test_without_the_fixture_nothing_is_lost(run, folder, plugin):
    (folder / "linear.py").write_text(HOLDING)
    subprocess = "-n" in plugin
    result = run(*ONLY, *plugin, subprocess=subprocess)
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(["entry *timed *", "linear *decode *32 *"])
    assert len(kept(folder)) == 6


def test_benchmark_only_runs_them_alone_and_benchmark_skip_runs_none(run):
    some = ("--selectiv-timing", "-k", "selective or forward-T16 or timing-forward")
    run(*some, "--benchmark-only").assert_outcomes(passed=3, skipped=1)
    run(*some, "--benchmark-skip").assert_outcomes(skipped=4)


def test_a_layer_that_cannot_decode_is_skipped_with_the_reason(run):
    result = run("--selectiv-timing", "-k", "timing-decode and T16", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED * linear cannot decode: no step(x, state), *"])


def test_a_layer_that_breaks_fails_with_its_own_frames(run, folder):
    (folder / "linear.py").write_text(
        LINEAR.replace("return self.layer(x)", "raise RuntimeError('in forward')")
    )
    result = run("--selectiv-timing", "-k", "timing-forward and T16")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["RuntimeError: in forward"])
    result.stdout.no_fnmatch_line("*workload.py*")


def test_without_the_option_there_are_no_timing_cases(run):
    result = run("--collect-only", "-q")
    result.stdout.no_fnmatch_line("*timing*")


def made(what: str, length: int, busy: float, memory: int | None) -> Timing:
    layers = {"own": Measured((2 * busy,), (busy,), 1, memory)}
    return Timing("e", "s", "lite", "cpu", what, length, 4, "k", layers, None, "process")


def test_growth_is_of_one_sequence_by_busy_seconds_and_memory():
    square = [made("train", T, 1e-6 * T**2, 100 * T) for T in (64, 128, 256, 512)]
    flat = [made("decode", T, 1e-4, 100 * T) for T in (64, 128, 256)]
    *_, first, second = timing_table.table([*flat, *square])
    assert first == (
        "e train: time of one sequence grows as T^2.00 (2.00 to 2.00), peak memory as T^1.00 "
        "(T = 128, 256, 512)"
    )
    assert second == "e decode: time of one step grows as T^0.00 (0.00 to 0.00) (T = 64, 128, 256)"
    assert timing_table.table([]) == []
