"""Every command of docs/tutorial.md runs, in its order and in one folder, with cut budgets.

That takes a minute of an idle machine, most of it starting processes, so it is of the full suite;
the normal one reads the arguments of each command and collects what pytest is to run.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from leaderboard import __main__ as site
from selectivbench import cli
from selectivbench.template import write

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```console\n(.*?)```", TEXT, flags=re.DOTALL)
    for line in block.splitlines()
]
BUDGET = "--selectiv-profile=smoke --selectiv-steps=2"
CUT = {"PYTEST_ADDOPTS": f"{BUDGET} --selectiv-validity=no -p no:cacheprovider -q"}
"""Of everything that pytest trains."""
PROBED = ("selectivbench probe", " --profile=smoke --steps=2 --sequences=8")
"""A probe takes the model of the same budget; it has no ini file to say so in."""


def test_the_tutorial_has_commands() -> None:
    assert len(COMMANDS) >= 10
    assert {command.split()[0] for command in COMMANDS} == {
        "selectivbench", "pytest", "python", "sed"
    }  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """What a reader has: the submissions, and the commands on the path."""
    made = tmp_path_factory.mktemp("tutorial")
    (made / "submissions").mkdir()
    for name in ("s4d.py", "mamba.py"):
        shutil.copy(ROOT / "submissions" / name, made / "submissions" / name)
    (made / "bin").mkdir()
    for name, module in (("python", ""), ("pytest", "-m pytest"), ("selectivbench", CLI)):
        script = made / "bin" / name
        script.write_text(f'#!/bin/sh\nexec {sys.executable} {module} "$@"\n')
        script.chmod(0o755)
    return made


CLI = "-m selectivbench.cli"


def run(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, **CUT, "PATH": path, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_understood(folder: Path, command: str) -> None:
    name, *words = shlex.split(command)
    if name == "selectivbench":
        cli._parser().parse_args(words)
    elif name == "python":
        assert words[:2] == ["-m", "leaderboard"]
        site._parser().parse_args(words[2:])
    elif name == "pytest":
        for word in words:
            if word.startswith("--selectiv-model=") and "/" not in word:  # the reader's own file
                write(folder / word.partition("=")[2])
        done = run(folder, f"{command} --collect-only")
        assert done.returncode == 0, done.stdout
        assert "selective_copy-v1[seed1]" in done.stdout


@pytest.mark.full
def test_every_command_runs(folder: Path) -> None:
    for file in folder.glob("*.py"):
        file.unlink()  # the reader starts without
    for command in COMMANDS:
        cut = command + PROBED[1] if command.startswith(PROBED[0]) else command
        done = run(folder, cut)
        assert done.returncode == 0, f"{cut}\n{done.stdout}\n{done.stderr}"
    assert {path.name for path in (folder / "_site" / "entries").glob("*.html")} == {
        "mine.html", "blind.html", "mamba.html", "s4d.html"
    }  # fmt: skip
    pictures = {path.name for path in (folder / "figures").glob("*.svg")}
    assert {"curve.svg", "pareto.svg"} < pictures
    assert len(list((folder / ".selectivbench" / "records" / "models").iterdir())) == 6


@pytest.mark.full
def test_what_the_tutorial_points_at_is_there(folder: Path) -> None:
    """The files that its text names, after its commands have run."""
    for name in re.findall(r"`((?:_site|figures)/[\w./-]+\.\w+)`", TEXT):
        assert (folder / name).is_file(), name
