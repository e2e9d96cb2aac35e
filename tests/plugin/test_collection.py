"""Which cases there are, what they are called, and that nothing else is collected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugin.conftest import EXPECTING, FAST, LINEAR

IDS = ["linear.py::selective_copy-v1[seed1]", "linear.py::selective_copy-v1[seed2]"]


def collected(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if "::" in line]


def test_one_case_for_each_submission_task_and_seed(run, folder):
    (folder / "other.py").write_text(LINEAR)
    result = run("--collect-only", "-q", "--selectiv-seeds=1,2", f"--selectiv-model={folder}")
    assert collected(result) == [*IDS, *(i.replace("linear", "other") for i in IDS)]


def test_the_longest_training_comes_first_and_what_waits_for_another_last(run):
    chosen = "memorization,gap_extrapolation,selective_copy,noisy_gaps"
    result = run("--collect-only", "-q", "--selectiv-profile=lite", f"--selectiv-tasks={chosen}")
    names = (line.partition("::")[2].partition("-v")[0] for line in collected(result))
    tasks = list(dict.fromkeys(names))
    assert tasks == ["noisy_gaps", "selective_copy", "memorization", "gap_extrapolation"]


def test_the_users_own_tests_are_left_alone(run, folder):
    (folder / "test_mine.py").write_text("def test_mine(): raise SystemExit('collected')")
    (folder / "conftest.py").write_text("import pytest\n@pytest.fixture\ndef mine(): return 1")
    assert collected(run("--collect-only", "-q")) == [IDS[0]]


def test_paths_beside_the_model_are_collected_too(run, folder):
    (folder / "test_mine.py").write_text("def test_mine(): pass")
    result = run("--collect-only", "-q", "test_mine.py")
    assert collected(result) == ["test_mine.py::test_mine", IDS[0]]


@pytest.mark.parametrize("form", ["=", " "])
def test_ids_do_not_depend_on_the_working_directory(pytester, folder, form):
    elsewhere = pytester.mkdir("elsewhere")
    model = [f"--selectiv-model={folder / 'linear.py'}"]
    if form == " ":
        model = ["--selectiv-model", "../linear.py"]
    command = [sys.executable, "-m", "pytest", *model, *FAST, "--collect-only", "-q"]
    out = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True, check=True).stdout
    assert [line for line in out.splitlines() if "::" in line] == [IDS[0]]


def test_a_node_id_from_the_report_selects_its_case(run):
    result = run("--collect-only", "-q", "--selectiv-seeds=1,2", IDS[1])
    assert collected(result) == [IDS[1]]


def test_a_node_id_that_is_none_is_said(run):
    result = run("linear.py::selective_copy-v1[seed9]", "-q")
    result.stderr.fnmatch_lines(["*no case is called linear.py::selective_copy-v1?seed9?*"])


def test_keywords_select(run):
    result = run("--collect-only", "-q", "--selectiv-seeds=1,2", "-k", "seed2")
    assert collected(result) == [IDS[1]]


def test_a_submission_is_not_run_at_collection(run, folder):
    (folder / "linear.py").write_text("print('ran')\nraise SystemExit\n" + LINEAR)
    result = run("--collect-only", "-q")
    assert collected(result) == [IDS[0]]
    result.stdout.no_fnmatch_line("*ran*")


def test_ids_are_the_same_inside_a_virtual_environment_below_the_root(run, monkeypatch, folder):
    """`make` puts .venv into the checkout, and pytest does not enter a .venv by itself."""
    from pytest_selectivbench import active, cases

    bench = folder / ".venv" / "lib" / "pytest_selectivbench" / "bench.py"
    bench.parent.mkdir(parents=True)
    bench.write_text("")
    (folder / ".venv" / "pyvenv.cfg").write_text("")
    (folder / "pytest.ini").write_text("[pytest]")
    for module in (active, cases):
        monkeypatch.setattr(module, "BENCH", bench)
    assert collected(run("--collect-only", "-q")) == [IDS[0]]


def test_a_broken_file_is_one_failure_and_the_others_run(run, folder):
    (folder / "broken.py").write_text("def Mixer(:\n")
    result = run("-q", f"--selectiv-model={folder}")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*broken.py (line 1): not valid Python*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_an_expected_failure_must_name_a_task(run, folder):
    (folder / "linear.py").write_text(EXPECTING.replace("copy-v1", "kopy-v1"))
    result = run("-q")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*did you mean 'selective_copy-v1'?*"])


BAD = [
    (["--selectiv-model=absent.py"], "*submission: got *absent.py*"),
    (["--selectiv-model=empty"], "*a folder with *.py files in it*"),
    (["--selectiv-model=linear.py", "--selectiv-model=twin/linear.py"], "*two submissions*linear*"),
    (["--selectiv-profile=lit"], "*did you mean 'lite'?*"),
    (["--selectiv-tasks=selective_kopy"], "*did you mean 'selective_copy'?*"),
    (["--selectiv-tasks=selective_copy:long"], "*variant of selective_copy in profile smoke*"),
    (["--selectiv-seeds=1,two"], "*--selectiv-seeds: got 'two'*"),
    (["--selectiv-seeds=-1"], "*--selectiv-seeds: got '-1'*"),
    (["--selectiv-steps=0"], "*--selectiv-steps: got '0'*"),
    (["--selectiv-steps=999"], "*steps: got 999, allowed: 1 to 20, the budget of selective_copy*"),
    (["--selectiv-device=gpu"], "*device: got 'gpu', allowed: auto, cpu or cuda*"),
    (["--selectiv-isolate=sandbox"], "*--selectiv-isolate: got 'sandbox'*"),
    (["--selectiv-out=linear.py/records"], "*records folder: got *a folder one can write to*"),
]


@pytest.mark.parametrize(("arguments", "said"), BAD, ids=[" ".join(a) for a, _ in BAD])
def test_bad_options_are_one_sentence(run, folder: Path, arguments, said):
    (folder / "empty").mkdir()
    (folder / "twin").mkdir()
    (folder / "twin" / "linear.py").write_text(LINEAR)
    result = run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {said}"])
    assert len(result.errlines) <= 2
