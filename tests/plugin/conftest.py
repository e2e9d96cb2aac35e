"""A folder with small submissions, and a way to run the benchmark on it as a person would."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# One linear layer: builds and trains in milliseconds, and is too simple to copy anything.
LINEAR = """
from torch import nn

NAME = "Linear"


class Mixer(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.layer = nn.Linear(spec.d_model, spec.d_model)

    def forward(self, x):
        return self.layer(x)
"""
EXPECTING = LINEAR + '\nEXPECTED_FAIL = ["selective_copy-v1"]\n'
FAST = (
    "--selectiv-validity=no",
    "--selectiv-profile=smoke",
    "--selectiv-tasks=selective_copy",
    "--selectiv-device=cpu",
)

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``linear.py`` in an empty folder; an inner run must not take itself for one of our workers."""
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)
    (pytester.path / "linear.py").write_text(LINEAR)
    return pytester.path


@pytest.fixture
def modules_stay(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """After an inner run, unload what it imported from the folder and nothing else.

    pytester would unload every module that a run was the first to import, and torch, NumPy and Numba
    cannot be imported a second time.
    """

    def restore(_: object) -> None:
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None)).startswith(str(folder)):
                del sys.modules[name]

    monkeypatch.setattr("_pytest.pytester.SysModulesSnapshot.restore", restore)


@pytest.fixture
def run(pytester: pytest.Pytester, folder: Path, modules_stay: None) -> Run:  # noqa: ARG001
    """Run pytest in the folder, on smoke's selective copy; warnings are errors there too.

    ``--selectiv-isolate=none`` keeps torch in this process, which is what makes these tests quick;
    those that are about child processes ask for ``process``.
    """

    def run(*arguments: str, subprocess: bool = False) -> pytest.RunResult:
        given = ["-W", "error", *FAST, *arguments]
        if not any(a.startswith("--selectiv-isolate") for a in arguments):
            given.append("--selectiv-isolate=none")
        if not any(a.startswith("--selectiv-model") for a in arguments):
            given.append(f"--selectiv-model={folder / 'linear.py'}")
        return pytester.runpytest_subprocess(*given) if subprocess else pytester.runpytest(*given)

    return run


def records(folder: Path) -> list[dict[str, object]]:
    """The records that a run left in a folder's default place, in the order of their names."""
    files = sorted((folder / ".selectivbench" / "records").glob("*-v1-*.json"))
    return [json.loads(file.read_text()) for file in files]
