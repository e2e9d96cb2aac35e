"""What may import what, and what is kept small; the layers themselves are import-linter's."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("selectivbench", "pytest_selectivbench", "leaderboard")
RESULTS = ROOT / "leaderboard" / "results"  # sources of submissions, kept as data
SOURCES = sorted(
    path
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if not path.is_relative_to(RESULTS)
)
SUBMISSIONS = sorted((ROOT / "submissions").glob("*.py"))

LIGHT = ["errors", "seeds", "batch", "tasks", "metrics", "thresholds", "record", "store"]
LIGHT += ["submission", "profiles", "machine", "runner", "cli", "sandbox.controller"]


@pytest.mark.parametrize("module", LIGHT)
def test_the_controllers_side_needs_no_torch(module):
    code = f"import sys, selectivbench.{module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_the_leaderboard_needs_no_torch():
    code = (
        "import sys, leaderboard.__main__; sys.exit(bool({'torch', 'pytest'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_the_childs_side_imports_nothing_that_makes_answers():
    code = (
        "import sys, selectivbench.sandbox.server, selectivbench.training;"
        "sys.exit(any(m.startswith(('selectivbench.tasks', 'selectivbench.seeds', "
        "'selectivbench.oracle', 'selectivbench.runner')) for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_are_at_most_300_lines(path):
    assert len(path.read_text().splitlines()) <= 300


def test_there_is_no_drawer_for_everything():
    assert not [path for path in SOURCES if path.stem in ("utils", "helpers", "common", "misc")]


@pytest.mark.parametrize("path", SUBMISSIONS, ids=lambda p: p.stem)
def test_submissions_are_a_page_and_import_nothing_of_ours(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 60
    names = [
        alias.name if isinstance(node, ast.Import) else node.module or ""
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]
    assert not [name for name in names if name.startswith(PACKAGES)]


def test_nothing_in_the_library_switches_on_an_entrys_name():
    """Names of submissions stand nowhere in the chain; the CPU backend names fla's layers."""
    stems = {f'"{path.stem}"' for path in SUBMISSIONS}
    rooms = [p for p in SOURCES if p.is_relative_to(ROOT / "selectivbench")]
    chain = [path for path in rooms if "fla_cpu" not in path.parts]
    assert not [path for path in chain if any(stem in path.read_text() for stem in stems)]
