"""The workflows: linted, pinned, least in rights; their steps are targets that run here as well."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from leaderboard.load import load
from leaderboard.rank import standings
from selectivbench.audited import Audited
from tests.leaderboard import made

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
TARGETS = ROOT / ".github" / "ci.mk"


def tool(name: str) -> str:
    """A tool of this environment, else of the machine."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: pip install the extra `dev`")
    return found


def run(
    *command: str, cwd: Path = ROOT, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env={**os.environ, **(env or {})},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def test_actionlint_finds_nothing() -> None:
    ran = run(tool("actionlint"), *map(str, WORKFLOWS))
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_actionlint_would_find_something(tmp_path: Path) -> None:
    (tmp_path / "bad.yml").write_text("on: nothing\njobs: {}\n", encoding="utf-8")
    assert run(tool("actionlint"), str(tmp_path / "bad.yml")).returncode != 0


def test_zizmor_finds_nothing() -> None:
    ran = run(tool("zizmor"), "--offline", "--no-progress", str(FOLDER))
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: str(p.stem))
def test_actions_are_pinned_rights_are_least_and_no_text_reaches_a_shell(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for used in re.findall(r"uses: (.*)", text):
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), used
    assert "\npermissions: {}\n" in text
    assert "pull_request_target" not in text
    assert "secrets." not in text
    for step in re.findall(r"run: (.*)", text):
        assert step.startswith("make "), step
        assert "${{" not in step


def test_every_step_is_a_target_that_exists() -> None:
    known = set(re.findall(r"^([a-z-]+):", TARGETS.read_text(encoding="utf-8"), re.MULTILINE))
    makefile = ROOT / "Makefile"
    if makefile.is_file():
        text = makefile.read_text(encoding="utf-8")
        known |= set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))
        assert "include .github/ci.mk" in text
    else:
        known |= {"lint", "site"}
    for path in WORKFLOWS:
        for step in re.findall(r"run: make (.*)", path.read_text(encoding="utf-8")):
            targets = [w for w in step.split(">>")[0].split() if w[0] != "-" and "=" not in w]
            assert targets
            assert set(targets) <= known, f"{path.name}: {step}"


# A stand-in for pytest: writes a record for the submission that it is given, as the plugin would.
STAND_IN = """#!{python}
import sys
sys.path.insert(0, {root!r})
ISOLATION = {isolation!r}
from tests.leaderboard import made
from pathlib import Path
words = [word[2:] for word in sys.argv if word.startswith("--selectiv") and "=" in word]
options = dict(word.split("=", 1) for word in words)
profile = options.get("selectiv-profile", "lite")
Path("calls.txt").open("a").write(repr(sys.argv[1:]) + "\\n")
given = Path(options["selectiv-model"])
files = sorted(given.glob("*.py")) if given.is_dir() else [given]
for file in files:
    text = file.read_text()
    about = dict(source=text, profile=profile, isolation=ISOLATION)
    about["validity"] = made.CHECKED if "selectiv-validity" in options else ()
    records = [made.record(file.stem, seed=s, **about) for s in (1, 2, 3)]
    made.write(Path(options["selectiv-out"]), records, source=lambda _: text)
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with the targets, a stand-in for pytest, and one new submission on a branch."""
    work = tmp_path / "clone"
    (work / "submissions").mkdir(parents=True)
    (work / ".venv").mkdir()
    (work / ".venv" / "stamp").touch()
    (work / "bin").mkdir()
    shutil.copy(TARGETS, work / "ci.mk")
    stand_in(work, "namespaces")
    runner = f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" "$@"\n'
    (work / "bin" / "python").write_text(runner, encoding="utf-8")
    (work / "bin" / "python").chmod(0o755)
    (work / "submissions" / "old.py").write_text("NAME = 'old'\n", encoding="utf-8")
    git(work, "init", "-q", "-b", "main")
    (work / ".gitignore").write_text(".selectivbench/\nincoming/\ncalls.txt\n", encoding="utf-8")
    git(work, "add", ".")
    git(work, "commit", "-q", "-m", "one")
    (work / "submissions" / "new.py").write_text("NAME = 'new'\n", encoding="utf-8")
    git(work, "add", ".")
    git(work, "commit", "-q", "-m", "two")
    return work


def stand_in(work: Path, isolation: str) -> None:
    """A pytest that leaves records of this isolation."""
    text = STAND_IN.format(python=sys.executable, root=str(ROOT), isolation=isolation)
    (work / "bin" / "pytest").write_text(text, encoding="utf-8")
    (work / "bin" / "pytest").chmod(0o755)


def git(work: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    return subprocess.run(
        ["git", *who, *words], cwd=work, check=True, capture_output=True, text=True
    ).stdout.strip()


def make(work: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    fixed = ("BIN=bin", "RECORDS=.selectivbench/records", "SITE=_site")
    return run("make", "-f", "ci.mk", *fixed, *words, cwd=work, env=env)


def test_only_changed_submissions_run_and_their_table_is_printed(clone: Path) -> None:
    for target in ("smoke-changed", "lite-changed"):
        ran = make(clone, target, BASE="HEAD~1")
        assert ran.returncode == 0, ran.stderr
    calls = (clone / "calls.txt").read_text(encoding="utf-8").splitlines()
    assert len(calls) == 2
    assert all("submissions/new.py" in call for call in calls)
    assert "--selectiv-no-gate" in calls[1]
    assert "--selectiv-no-gate" not in calls[0]
    table = make(clone, "--silent", "summary").stdout
    assert "| new | lite | cpu | selective copy |" in table


def test_nothing_changed_is_no_run_and_no_failure(clone: Path) -> None:
    assert make(clone, "lite-changed", BASE="HEAD").returncode == 0
    assert not (clone / "calls.txt").exists()


def test_a_name_that_is_a_command_is_only_a_name(clone: Path) -> None:
    evil = "a; touch pwned; $(touch pwned) ' b.py"
    (clone / "submissions" / evil).write_text("NAME = 'evil'\n", encoding="utf-8")
    git(clone, "add", ".")
    git(clone, "commit", "-q", "-m", "three")
    make(clone, "smoke-changed", BASE="HEAD~1")
    assert not (clone / "pwned").exists()
    assert evil in (clone / "calls.txt").read_text(encoding="utf-8").replace("\\'", "'")


def scored(clone: Path) -> Path:
    """The new submission, scored; gives the origin that a branch would be pushed to."""
    (origin := clone.parent / "origin.git").mkdir()
    git(origin, "init", "-q", "--bare")
    git(origin, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(clone, "remote", "add", "origin", str(origin))
    git(clone, "push", "-q", "origin", "main")
    sha = git(clone, "rev-parse", "HEAD")
    ran = make(clone, "incoming", "score", SHA=sha, FILE="submissions/new.py")
    assert ran.returncode == 0, ran.stderr
    return origin


def audited(clone: Path, public: float, audit: float) -> None:
    """The gap of the scored submission, as the audit leaves it beside the records."""
    (case, *_) = load([clone / ".selectivbench/scored"]).cases
    gap = made.gap(case.record, public, audit)
    (clone / ".selectivbench/scored/audits").mkdir()
    path = clone / ".selectivbench/scored/audits/audit.json"
    path.write_text(Audited("a" * 64, "namespaces", (gap,)).to_json(), encoding="utf-8")


@pytest.mark.parametrize(("audit", "wanted"), [(0.88, "verified"), (0.2, "marked")])
def test_an_audit_comes_with_the_records(clone: Path, audit: float, wanted: str) -> None:
    scored(clone)
    audited(clone, 0.9, audit)
    ran = make(clone, "add-scored", "RESULTS=leaderboard/results")
    assert ran.returncode == 0, ran.stderr
    loaded = load([clone / "leaderboard/results"])
    assert loaded.refused == ()
    (standing,) = standings(loaded.cases, audits=loaded.audits)
    assert standing.verified == wanted
    assert (clone / "leaderboard/results/audits" / ("a" * 24 + ".json")).is_file()


def test_without_a_salt_there_is_no_audit_and_no_failure(clone: Path) -> None:
    ran = make(clone, "audit-scored")
    assert ran.returncode == 0
    assert "partly verified" in ran.stdout


def test_a_runner_without_namespaces_gives_no_mark(clone: Path) -> None:
    stand_in(clone, "landlock")
    scored(clone)
    ran = make(clone, "add-scored", "RESULTS=leaderboard/results")
    assert ran.returncode != 0
    assert "isolation: got 'landlock', allowed: namespaces for the verified mark" in ran.stderr


def test_scoring_takes_the_submission_as_data_and_offers_a_branch(clone: Path) -> None:
    origin = scored(clone)
    (call,) = (clone / "calls.txt").read_text(encoding="utf-8").splitlines()
    assert "--selectiv-isolate=highest" in call
    assert [p.name for p in (clone / "incoming").iterdir()] == ["new.py"]
    results = "RESULTS=leaderboard/results"
    ran = make(
        clone, "add-scored", "check-records", "push-records", results, BRANCH="records/run-7"
    )
    assert ran.returncode == 0, ran.stderr
    pushed = git(origin, "ls-tree", "-r", "--name-only", "records/run-7", "leaderboard/results")
    assert len([line for line in pushed.splitlines() if line.endswith(".json")]) == 3
    loaded = load([clone / "leaderboard/results"])
    assert {c.record.verified for c in loaded.cases} == {True}


@pytest.mark.parametrize(
    ("sha", "file"),
    [
        ("HEAD", "submissions/new.py"),
        ("0" * 39, "submissions/new.py"),
        ("$(touch pwned)", "submissions/new.py"),
        ("0" * 40, "Makefile"),
        ("0" * 40, "submissions/../Makefile.py"),
        ("0" * 40, "submissions/x.py; touch pwned"),
        ("0" * 40, "submissions/x.py\nsubmissions/y.py"),
        ("", ""),
    ],
)
def test_a_commit_or_file_that_is_none_is_refused(clone: Path, sha: str, file: str) -> None:
    ran = make(clone, "incoming", SHA=sha, FILE=file)
    assert ran.returncode != 0
    assert "give" in ran.stderr
    assert not (clone / "pwned").exists()
    assert not (clone / "incoming").exists()
