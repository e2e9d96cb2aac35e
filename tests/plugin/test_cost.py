"""What the controller itself costs: no torch until it is needed, quick collection, little memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugin.conftest import FAST, LINEAR

# A plugin of the inner run: says at its end what this process has imported, used and taken.
WITNESS = """
import resource, sys

def pytest_unconfigure():
    used = resource.getrusage(resource.RUSAGE_SELF)
    peak = next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1]
    print(f"\\nwitness {used.ru_utime + used.ru_stime:.3f} {int(peak)} {int('torch' in sys.modules)}")
"""


@pytest.fixture
def measured(folder: Path):
    """Run pytest in a process of its own; (CPU seconds, KiB at the peak, whether torch is there)."""
    (folder / "witness.py").write_text(WITNESS)

    def run(*arguments: str) -> tuple[float, int, bool]:
        command = [sys.executable, "-m", "pytest", "-p", "witness", "-p", "no:hypothesispytest"]
        command += ["-p", "no:cacheprovider", *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        (line,) = (line for line in done.stdout.splitlines() if line.startswith("witness"))
        cpu, peak, torch = line.split()[1:]
        return float(cpu), int(peak), torch == "1"

    return run


def test_collection_of_many_cases_is_quick_and_imports_no_torch(measured, folder):
    """40 submissions x 8 tasks x 3 seeds in a second of CPU, beyond what pytest takes to start."""
    (models := folder / "models").mkdir()
    for number in range(40):
        (models / f"linear{number}.py").write_text(f"# {number}\n{LINEAR}")
    (folder / "test_one.py").write_text("def test_one():\n    pass\n")
    empty, _, _ = measured("--collect-only", "-q", "test_one.py")
    names = "selective_copy,noisy_gaps,gap_extrapolation,distractors,memorization"
    many = f"--selectiv-tasks={names},next_symbol,mqar,induction"
    cpu, peak, torch = measured(
        "--collect-only", "-q", f"--selectiv-model={models}", many, "--selectiv-seeds=1,2,3"
    )
    assert cpu - empty < 1.0
    assert peak < 300 * 1024
    assert not torch


def test_the_controller_of_a_run_stays_small_and_without_torch(measured, folder):
    cpu, peak, torch = measured(*FAST, f"--selectiv-model={folder / 'linear.py'}")
    assert cpu < 60
    assert peak < 300 * 1024
    assert not torch
