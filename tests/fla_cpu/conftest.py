"""Runs fla's own kernels once per test session, for all collected comparisons together."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from selectivbench import fla_cpu

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


@pytest.fixture(autouse=True)
def _enabled() -> None:
    """Before a test imports fla, too: enabling also keeps fla's import-time warnings away."""
    fla_cpu.enable()


@pytest.fixture(scope="session")
def theirs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, Any], dict[str, torch.Tensor]]:
    """`theirs(device, case)`: what fla's own kernels give for a case."""
    root = tmp_path_factory.getbasetemp()
    root = root.parent if os.environ.get("PYTEST_XDIST_WORKER") else root

    def result(device: str, case: Any) -> dict[str, torch.Tensor]:
        saved = _run_once(root / f"{device}.pt", device, _collected(request.session, device))
        found = saved[str(case)]
        if isinstance(found, str):
            pytest.fail(f"fla's own kernel did not run on {device}: {found}")
        return found

    return result


def _collected(session: pytest.Session, device: str) -> list[str]:
    calls = [item.callspec.params for item in session.items if hasattr(item, "callspec")]
    cases = {p["case"] for p in calls if "case" in p and p.get("device") == device}
    return sorted(f"{c.layer}:{c.length}:{c.dtype}:{c.gate}" for c in cases)


def _run_once(out: Path, device: str, names: list[str]) -> dict[str, Any]:
    """The lock lets one xdist worker do the work while the others wait for its file."""
    with open(out.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.exists():
            # -O: fla forbids float32 in two ops by an assertion. ieee: no TF32 in a comparison.
            command = [sys.executable, "-O", "-W", "ignore", str(HERE / "witness.py"), device]
            environment = {**os.environ, "TRITON_F32_DEFAULT": "ieee", "OMP_NUM_THREADS": "1"}
            subprocess.run([*command, str(out), *names], env=environment, check=True)
        return torch.load(out)
