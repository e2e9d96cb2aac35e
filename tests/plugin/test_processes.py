"""Real child processes, xdist workers and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.plugin.conftest import FAST, LINEAR, records

ISOLATED = "--selectiv-isolate=process"


def test_a_child_process_trains_and_is_measured(run, folder):
    run(ISOLATED, subprocess=True).assert_outcomes(passed=1)
    (record,) = records(folder)
    assert record["isolation"] == "process"
    assert record["baseline_memory"] > 50_000_000
    assert 1_000_000 < record["peak_memory"] < 500_000_000
    assert record["seconds"]["cpu"] > 0


def test_two_workers_give_the_same_records_as_one(run, folder):
    (folder / "other.py").write_text(LINEAR)
    wanted = (ISOLATED, f"--selectiv-model={folder}", "--selectiv-seeds=1,2")
    result = run(*wanted, "-n", "2", subprocess=True)
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["linear *selective_copy-v1 *pass*", "trained 4 *", "records: *"])
    parallel = [(r["identity"], r["accuracy"], r["curve"]) for r in records(folder)]
    run(*wanted, "--selectiv-out=serial", "-p", "no:xdist", subprocess=True)
    (folder / ".selectivbench" / "records").rename(folder / "parallel")
    (folder / "serial").rename(folder / ".selectivbench" / "records")
    assert parallel == [(r["identity"], r["accuracy"], r["curve"]) for r in records(folder)]


def test_two_runs_at_once_share_the_trainings_and_both_have_their_records(folder):
    """One trains what the other waits for; neither takes the other's list for its own."""
    (folder / "other.py").write_text(LINEAR)
    command = [sys.executable, "-m", "pytest", *FAST, ISOLATED, "-p", "no:cacheprovider"]
    runs = [
        subprocess.Popen([*command, *models], cwd=folder, stdout=subprocess.PIPE, text=True)
        for models in (
            ("--selectiv-model=linear.py", "--selectiv-model=other.py"),
            ("--selectiv-model=linear.py",),
        )
    ]
    said = [process.communicate(timeout=120)[0] for process in runs]
    assert [process.returncode for process in runs] == [0, 0], said
    assert sum("trained 2" in text or "trained 1" in text for text in said) >= 1
    assert sum(text.count("trained 1") + 2 * text.count("trained 2") for text in said) == 2
    assert len(records(folder)) == 2
    assert not list((folder / ".selectivbench/records/session").glob("run-*"))


def test_a_selected_case_under_xdist(run):
    result = run("-n", "2", "--selectiv-seeds=1,2", "linear.py::selective_copy-v1[seed2]",
                 subprocess=True)  # fmt: skip
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ("import os; os._exit(0)", "crash", "left with exit code 0"),
        ("import os; os.kill(os.getpid(), 11)", "crash", "ended by SIGSEGV"),
        ("raise MemoryError('much')", "oom", "MemoryError: much"),
        ("return self.layer(x) * float('nan')", "invalid", "the training loss is nan"),
    ],
)
def test_a_child_that_fails_is_a_result(run, folder, body, status, said):
    (folder / "linear.py").write_text(LINEAR.replace("return self.layer(x)", body))
    result = run(ISOLATED)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*selective_copy-v1: {status}: *"])
    (record,) = records(folder)
    assert record["status"] == status
    assert said in record["cause"]


def test_interrupting_keeps_finished_records_and_leaves_no_child(folder):
    """Ctrl-C in the second case: the first one's record stays, and every process is gone."""
    (folder / "slow.py").write_text(
        LINEAR.replace("return self.layer(x)", "import time; time.sleep(60); return self.layer(x)")
    )
    command = [sys.executable, "-m", "pytest", *FAST, ISOLATED, f"--selectiv-model={folder}"]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | {"TMPDIR": str(folder)},  # where children live, so that they can be told
        start_new_session=True,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=hear_interrupts,
    )
    deadline = time.monotonic() + 60
    while not records(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)  # well into the slow one
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)  # a busy machine takes its time
    assert process.returncode == pytest.ExitCode.INTERRUPTED, out
    assert [record["identity"]["entry"] for record in records(folder)] == ["linear"]
    assert "linear" in out.partition("SelectivBench")[2]
    assert not children_in(str(folder)), "a child outlived its controller"


def hear_interrupts() -> None:
    """Also where the tests run in the background of a shell, which makes its jobs deaf to Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def children_in(folder: str) -> list[int]:
    """Sandbox processes that work below ``folder``."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_text()
            cwd = os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            continue  # it has just ended
        if "selectivbench.sandbox" in command and cwd.startswith(folder):
            found.append(int(pid))
    return found
