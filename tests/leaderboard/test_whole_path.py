"""From a new submission file to its page, through the targets that the workflows call."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from leaderboard.load import load

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("selectivbench", "pytest_selectivbench", "leaderboard", "submissions", ".github")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository like this one, with a new submission in its newest commit."""
    work = tmp_path / "checkout"
    for part in PARTS:
        ignore = shutil.ignore_patterns("__pycache__", "*.json.part")
        shutil.copytree(ROOT / part, work / part, ignore=ignore)
    (work / "tests").mkdir()  # pyproject.toml names it
    shutil.copy(ROOT / "pyproject.toml", work)
    (work / ".gitignore").write_text("__pycache__/\n.selectivbench/\n.venv/\n", encoding="utf-8")
    (work / ".venv" / "bin").mkdir(parents=True)
    (work / ".venv" / "stamp").touch()
    for name, call in (("python", ""), ("pytest", "-m pytest")):
        script = work / ".venv" / "bin" / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {call} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    git(work, "init", "-q", "-b", "main")
    commit(work, "before")
    source = (ROOT / "submissions" / "lstm.py").read_text(encoding="utf-8")
    named = source.replace('NAME = "LSTM"', 'NAME = "Newcomer"')
    (work / "submissions" / "newcomer.py").write_text(named, encoding="utf-8")
    commit(work, "a new submission")
    return work


def git(work: Path, *words: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *who, *words], cwd=work, check=True, capture_output=True)


def commit(work: Path, message: str) -> None:
    git(work, "add", ".")
    git(work, "commit", "-q", "-m", message)


def make(work: Path, *words: str) -> str:
    fixed = ("BIN=.venv/bin", "RECORDS=.selectivbench/records", "SITE=_site", "BASE=HEAD~1")
    environment = {**os.environ, "PYTHONPATH": str(work), "OMP_NUM_THREADS": "1"}
    environment.pop("PYTEST_DISABLE_PLUGIN_AUTOLOAD", None)
    environment.pop("PYTEST_ADDOPTS", None)
    ran = subprocess.run(
        ["make", "-f", ".github/ci.mk", *fixed, *words],
        cwd=work, env=environment, capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    return ran.stdout


@pytest.mark.full
def test_a_new_submission_comes_onto_the_site(checkout: Path) -> None:
    few = "ARGS=--selectiv-steps=2 --selectiv-tasks=selective_copy --selectiv-seeds=1"
    make(checkout, "smoke-changed", "ARGS=--selectiv-tasks=selective_copy --selectiv-seeds=1")
    make(checkout, "lite-changed", few)
    records = load([checkout / ".selectivbench/records"])
    assert records.refused == ()
    assert {c.record.identity.entry for c in records.cases} == {"newcomer"}
    assert {c.record.identity.profile for c in records.cases} == {"smoke", "lite"}
    table = make(checkout, "--silent", "summary")
    assert "| newcomer | lite | cpu | selective copy |" in table
    make(checkout, "add-scored", "check-records", "SCORED=.selectivbench/records")
    command = ["-m", "leaderboard", "build", "--out", "_site"]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    subprocess.run([sys.executable, *command], cwd=checkout, env=environment, check=True)
    page = (checkout / "_site" / "entries" / "newcomer.html").read_text(encoding="utf-8")
    assert "Newcomer" in page
    assert "LSTM (Hochreiter" in page, "the stored source is shown"
    assert "Newcomer" in (checkout / "_site" / "index.html").read_text(encoding="utf-8")
