"""What a run gives: verdicts, records, re-use, and reports of other plugins."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from selectivbench.record import Identity
from selectivbench.thresholds import bar_for
from tests.plugin.conftest import EXPECTING, LINEAR, records

# Too few steps to reach any bar.
LITE = ("--selectiv-profile=lite", "--selectiv-steps=2", "--selectiv-seeds=1")
BROKEN = LINEAR.replace("return self.layer(x)", "raise RuntimeError('in forward')")


def test_a_pass_and_its_record(run, folder):
    result = run("--selectiv-seeds=1,2")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "selectivbench: profile smoke, device cpu, isolation 0 (none), records in *",
            "entry *task *accuracy *range *floor *ceiling *score *bar *verdict *time",
            "linear *selective_copy-v1 *0.125 *1.000 *pass *",
            "trained 2 (no record yet): linear selective_copy-v1 seed 1, *",
            "records: *",
        ]
    )
    first, second = records(folder)
    assert (first["status"], first["identity"]["seed"], second["identity"]["seed"]) == (
        "pass",
        1,
        2,
    )
    assert first["parameters"] > 20_000
    assert len(first["curve"]) == 20
    sources = folder / ".selectivbench" / "records" / "sources"
    assert (sources / f"{first['identity']['source_sha256']}.py").read_text() == LINEAR


def test_a_second_run_takes_every_record(run):
    run("--selectiv-seeds=1,2")
    again = run("--selectiv-seeds=1,2")
    again.assert_outcomes(passed=2)
    again.stdout.fnmatch_lines(["re-used 2 (same submission, budget and environment): *"])
    again.stdout.no_fnmatch_line("*benchmark: 1 tests*")  # nothing was timed, and no fixture asked


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("--selectiv-rerun",), "asked to run again"),
        (("--selectiv-steps=3",), "no record yet; an older one differs in budget_digest"),
        (
            ("--selectiv-precision=bf16",),
            "no record yet; an older one differs in device_class, budget_digest",
        ),
    ],
)
def test_a_changed_wish_trains_again(run, change, reason):
    run()
    run(*change).stdout.fnmatch_lines([f"trained 1 ({reason}): *"])


def test_a_changed_file_trains_again(run, folder):
    run()
    (folder / "linear.py").write_text(LINEAR + "\n# changed\n")
    again = run()
    again.stdout.fnmatch_lines(["trained 1 (*differs in source_sha256): *"])
    assert len(records(folder)) == 2


def test_a_cut_budget_is_another_record(run, folder):
    run("--selectiv-steps=2")
    run("--selectiv-steps=3")
    assert [record["budget"]["budget"]["steps"] for record in records(folder)].sort() is None
    assert {record["budget"]["budget"]["steps"] for record in records(folder)} == {2, 3}


def test_a_corrupt_record_is_moved_aside_and_run_again(run, folder):
    run()
    (file,) = (folder / ".selectivbench" / "records").glob("linear-*.json")
    file.write_text(file.read_text()[:100])
    run().stdout.fnmatch_lines(["trained 1 (the record was corrupt *moved to linear-*.corrupt): *"])
    assert file.with_suffix(".corrupt").is_file()
    assert len(records(folder)) == 1


def test_below_the_bar_says_figure_bar_and_where_to_look(run):
    result = run(*LITE)
    bar = bar_for("selective_copy-v1", "lite", "base").bar
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            f"linear on selective_copy-v1 (seed 1, lite): score * is below the bar {bar:.3f}.",
            "  accuracy *, floor 0.1250, ceiling 1.0000",
            "  look at *",
            "  record: linear-selective_copy-v1-base-lite-seed1-*.json",
            f"linear *{bar:.3f} *fail *",
        ]
    )
    result.stdout.no_fnmatch_line("*pytest_selectivbench/*.py:*")


def test_without_the_gate_it_is_recorded_and_does_not_fail(run, folder):
    run(*LITE, "--selectiv-no-gate").assert_outcomes(passed=1)
    assert [record["status"] for record in records(folder)] == ["fail"]


def test_an_expected_failure_is_a_strict_xfail(run, folder):
    (folder / "linear.py").write_text(EXPECTING)
    result = run(*LITE)
    result.assert_outcomes(xfailed=1)
    result.stdout.fnmatch_lines(["linear *fail (expected) *"])


def test_a_crash_is_no_expected_failure(run, folder):
    (folder / "linear.py").write_text(BROKEN + EXPECTING[len(LINEAR) :])
    run(*LITE).assert_outcomes(failed=1)


def test_an_unexpected_pass_fails(run, folder, monkeypatch):
    """The bar is put at the bottom, so that even two steps of a linear layer pass."""
    from dataclasses import replace

    from selectivbench import thresholds

    low = tuple(replace(bar, bar=-1.0) for bar in thresholds.bars())
    monkeypatch.setattr(thresholds, "bars", lambda: low)
    (folder / "linear.py").write_text(EXPECTING)
    result = run(*LITE)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*XPASS(strict)*expects to stay below the bar*"])


def test_a_failing_submission_shows_its_own_frames_only(run, folder):
    (folder / "linear.py").write_text(BROKEN)
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["linear on selective_copy-v1: error: *linear.py*", "RuntimeError: in forward"]
    )
    result.stdout.no_fnmatch_line("*backbone.py*")
    assert records(folder)[0]["status"] == "error"


def test_errors_are_tried_again(run, folder):
    (folder / "linear.py").write_text(BROKEN)
    run()
    run().stdout.fnmatch_lines(["trained 1 (the last try ended in error): *"])


def test_wrong_shape_says_got_and_wanted(run, folder):
    (folder / "linear.py").write_text(LINEAR.replace("self.layer(x)", "self.layer(x)[:, :-1]"))
    result = run()
    result.stdout.fnmatch_lines(["*Mixer's output: got (32, 19, 32), allowed: (32, 20, 32)*"])


def test_exit_first_and_last_failed(run, folder):
    (folder / "broken.py").write_text(BROKEN)
    wanted = (f"--selectiv-model={folder}", "--selectiv-seeds=1,2")
    run(*wanted, "-x").assert_outcomes(failed=1)
    assert [record["identity"]["entry"] for record in records(folder)] == ["broken"]
    run(*wanted, "--lf").assert_outcomes(failed=1)
    assert [record["identity"]["entry"] for record in records(folder)] == ["broken"]


def test_junit_xml_carries_the_row(run, folder):
    run("--junitxml=report.xml")
    (case,) = ET.parse(folder / "report.xml").iter("testcase")
    assert case.get("name") == "selective_copy-v1[seed1]"
    (prop,) = [p for p in case.iter("property") if p.get("name") == "selectivbench"]
    assert json.loads(prop.get("value"))["status"] == "pass"


def test_the_fit_is_timed_once_and_described(run, folder):
    run("--benchmark-json=times.json")
    times = json.loads((folder / "times.json").read_text())
    (bench,) = times["benchmarks"]
    assert bench["stats"]["rounds"] == bench["stats"]["iterations"] == 1
    assert bench["name"] == "linear selective_copy-v1[seed1]"
    (record,) = records(folder)
    assert bench["extra_info"] == {
        "entry": "linear",
        "task": "selective_copy-v1",
        "variant": "base",
        "profile": "smoke",
        "seed": 1,
        "device_class": "cpu",
        "accuracy": record["accuracy"],
        "verdict": "pass",
        "record": Identity(**record["identity"]).key,
    }
    assert bench["stats"]["mean"] == pytest.approx(record["seconds"]["fit"], abs=0.05)
    assert times["machine_info"]["node"] == "redacted"


@pytest.mark.parametrize("arguments", [["--benchmark-disable"], ["-p", "no:benchmark"]])
def test_our_own_clock_does_not_need_pytest_benchmark(run, folder, arguments):
    run(*arguments).assert_outcomes(passed=1)
    assert records(folder)[0]["seconds"]["fit"] > 0


def test_a_missing_record_makes_a_green_run_fail(run, folder):
    (folder / "conftest.py").write_text(
        "import glob, os, pytest\n"
        "@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_sessionfinish():\n"
        "    for file in glob.glob('.selectivbench/records/linear-*.json'): os.remove(file)\n"
    )
    result = run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["no record: linear.py::selective_copy-v1?seed1?"])


def test_a_manifest_of_another_run_is_not_this_runs(run, folder):
    (folder / "conftest.py").write_text(
        "import pathlib, pytest\n"
        "@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_sessionfinish():\n"
        "    path = pathlib.Path('.selectivbench/records/session/manifest.json')\n"
        '    path.write_text(\'{"other.py::x": "still-running"}\')\n'
    )
    assert run().ret == pytest.ExitCode.OK


def test_autocast_is_said_and_recorded(run, folder):
    run("--selectiv-precision=bf16").stdout.fnmatch_lines(
        ["selectivbench: profile smoke, device cpu+bf16, isolation *"]
    )
    (record,) = records(folder)
    assert record["identity"]["device_class"] == "cpu+bf16"
    assert record["budget"]["precision"] == "bf16"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("--selectiv-precision=fp16", "--selectiv-precision: got 'fp16', allowed: bf16, fp32*"),
        (
            "--selectiv-cuda-graphs",
            "device: got 'cpu', allowed: cuda, for CUDA graphs*leave --selectiv-cuda-graphs out*",
        ),
    ],
)
def test_a_mode_that_cannot_be_is_a_usage_error(run, given, told):
    result = run(given)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{told}"])


def test_options_in_the_ini_file(run, folder):
    (folder / "pytest.ini").write_text("[pytest]\nselectiv_seeds = 3\nselectiv_out = kept\n")
    run().assert_outcomes(passed=1)
    (file,) = (folder / "kept").glob("linear-*.json")
    assert json.loads(file.read_text())["identity"]["seed"] == 3


def test_every_option_is_documented_with_its_default(pytester):
    text = pytester.runpytest("--help").stdout.str()
    names = ["model", "profile", "tasks", "seeds", "out", "device", "steps", "isolate", "validity"]
    names += ["rerun", "no-gate", "precision", "cuda-graphs"]
    for name in names:
        assert f"--selectiv-{name}" in text
        assert f"selectiv_{name.replace('-', '_')} (" in text  # the ini twin
    assert text.count("(default: ") >= len(names)
