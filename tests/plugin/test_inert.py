"""Without --selectiv-model the plugin is as good as absent."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.plugin.conftest import FAST, LINEAR

PROBE = """
import sys
def test_nothing_was_imported():
    ours = {m for m in sys.modules if m.startswith("selectivbench")}
    heavy = {"torch", "numpy", "pandas", "fla", "numba"} & set(sys.modules)
    assert not ours and not heavy
"""


def test_no_import_and_no_item(pytester):
    pytester.makepyfile(test_probe=PROBE)
    result = pytester.runpytest_subprocess("-p", "no:hypothesispytest")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*selectivbench: *")


def test_active_but_not_training_still_needs_no_torch(pytester):
    """Collecting is for everybody; importing torch takes a second."""
    pytester.makepyfile(linear=LINEAR)
    pytester.makeconftest(
        "import sys\ndef pytest_sessionfinish(): assert 'torch' not in sys.modules"
    )
    result = pytester.runpytest_subprocess(
        "--selectiv-model=linear.py", *FAST, "--collect-only", "-q"
    )
    assert result.ret == pytest.ExitCode.OK


@pytest.mark.full
def test_start_up_costs_less_than_50_ms():
    """The plugin's import alone, against an interpreter that has pytest; medians of 7 pairs."""

    def seconds(code: str) -> float:
        text = (
            f"import pytest, time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
        )
        out = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, check=True
        )
        return float(out.stdout)

    taken = sorted(seconds("import pytest_selectivbench.plugin") for _ in range(7))
    assert taken[3] < 0.05, f"median {taken[3]:.3f} s"
