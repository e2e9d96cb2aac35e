"""The recipes of docs/timing.md run as they stand, at smoke's sizes; of the full suite."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugin.conftest import LINEAR

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "timing.md").read_text(encoding="utf-8")
RECIPES = TEXT.partition("## Recipes")[2].partition("## Steps to the bar")[0]
COMMANDS = [
    command
    for block in re.findall(r"```console\n(.*?)```", RECIPES, flags=re.DOTALL)
    for command in block.replace("\\\n", "").splitlines()
]
SNIPPETS = re.findall(r"```python\n(.*?)```", RECIPES, flags=re.DOTALL)
CUT = {
    "-k timing": "-k 'timing-train and T16'",
    ":10%": ":100000%",  # a busy machine is no regression
    ":20%": ":100000%",
}
OPTIONS = "--selectiv-profile=smoke --selectiv-steps=2 --selectiv-validity=no -p no:cacheprovider"


def run(folder: Path, command: str) -> str:
    for words, instead in CUT.items():
        command = command.replace(words, instead)
    program, _, rest = command.partition(" ")
    assert program == "pytest"
    environment = {**os.environ, "PYTEST_ADDOPTS": OPTIONS, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m pytest {rest}"],
        cwd=folder, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_there_are_recipes() -> None:
    assert len(COMMANDS) == 4
    assert len(SNIPPETS) == 2
    assert all(command.startswith("pytest --selectiv-model=mine.py") for command in COMMANDS)


@pytest.mark.full
def test_every_recipe_runs(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(LINEAR)
    _, after, _, again = (run(tmp_path, command) for command in COMMANDS)
    saved = sorted(file.name for file in tmp_path.glob(".benchmarks/*/*.json"))
    assert saved == ["0001_before.json", "0002_learns.json"]
    assert "mine train T16 (NOW)" in after
    assert "mine train T16 (0001_before)" in after
    assert "mine selective_copy-v1[seed1] (0002_learns)" in again
    told = [
        subprocess.run(
            [sys.executable, "-c", snippet],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, check=True,
        ).stdout
        for snippet in SNIPPETS
    ]  # fmt: skip
    assert re.match(r"train 16 [\d.]+ [\d.]+\n", told[0])
    assert told[1] == "selective_copy-v1 1 None\n"


@pytest.mark.full
def test_a_histogram_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("pygal", reason="needs pip install 'pytest-benchmark[histogram]'")
    (tmp_path / "mine.py").write_text(LINEAR)
    run(tmp_path, f"{COMMANDS[0]} --benchmark-histogram=drawn")
    assert [file.name for file in tmp_path.glob("drawn*.svg")]
