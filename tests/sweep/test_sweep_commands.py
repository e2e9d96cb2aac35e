"""`selectivbench sweep` as it is typed: cells that are really trained, and every refusal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from selectivbench.cli import main
from selectivbench.record import Record
from selectivbench.sweep.agent import tell_agent
from selectivbench.sweep.folder import Folder
from tests.sweep.conftest import TINY

Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_run_status_results_and_resume(
    sweep_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(sweep_file())
    assert main(["sweep", "run", path, "--workers", "1"]) == 0
    assert "4 cells done in .selectivbench/sweeps/tiny; 4 of them now." in capsys.readouterr().out
    records = list(Path(".selectivbench/sweeps/tiny/records").glob("*/*.json"))
    assert {Record.from_json(p.read_text()).status for p in records} == {"pass"}

    assert main(["sweep", "status", path]) == 0
    assert "tiny: 4 of 4 done, 0 failed, 0 begun, 0 left; no driver" in capsys.readouterr().out
    assert main(["sweep", "results", path]) == 0
    assert "lr=0.001" in capsys.readouterr().out
    marked = [Record.from_json(p.read_text()).selection for p in records]
    assert sum(said is not None for said in marked) == 2

    before = {p: p.stat().st_mtime_ns for p in records}
    assert main(["sweep", "resume", path]) == 0
    assert "4 cells done in .selectivbench/sweeps/tiny; 0 of them now." in capsys.readouterr().out
    assert {p: p.stat().st_mtime_ns for p in records} == before


def test_a_trained_model_is_kept_and_reused_by_another_sweep(
    sweep_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    common = 'profile = "smoke"\nsubmissions = ["linear.py"]\nseeds = [1]\n[fixed]\nsteps = 2\n'
    first = sweep_file(f'task = "noisy_gaps"\nsave = true\n{common}', "gaps.toml")
    second = sweep_file(
        f'task = "gap_extrapolation"\nreuse = "gaps.toml"\n{common}'
        '[grid]\nevaluation = ["test-gap10", "test-gap100"]\n',
        "longer.toml",
    )
    cells = [["sweep", "cell", str(second), f"--evaluation=test-gap{gap}"] for gap in (10, 100)]
    assert main(cells[0]) == 2
    assert "saved model of linear on noisy_gaps" in capsys.readouterr().err
    assert main(["sweep", "cell", str(first)]) == 0
    assert [main(cell) for cell in cells] == [0, 0]
    records = [
        Record.from_json(path.read_text())
        for path in Path(".selectivbench/sweeps/longer/records").glob("*/*.json")
    ]
    assert [record.from_saved for record in records] == [True, True]
    main(["sweep", "results", str(second)])
    (gap10, gap100) = Path(".selectivbench/sweeps/longer/results.csv").read_text().splitlines()[1:]
    parts = {part.split: part.accuracy for part in records[0].evaluations}
    assert f",{parts['test-gap10']}," in gap10
    assert f",{parts['test-gap100']}," in gap100


def test_the_command_that_is_exported_runs_one_cell_as_an_agent_runs_it(
    sweep_file: Write, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sweep_file(
        TINY.replace("[choose]", "[random]\ndraws = 2\nlayers = { low = 1, high = 2 }\n[choose]")
    )
    assert main(["sweep", "export-wandb", str(path)]) == 0
    exported = yaml.safe_load(capsys.readouterr().out)
    assert exported["method"] == "grid"
    assert exported["parameters"]["lr"]["values"] == [0.001, 0.01]
    chosen = {name: {"value": of["values"][-1]} for name, of in exported["parameters"].items()}
    assert chosen["draw"] == {"value": 1}
    command = as_an_agent(exported["command"], chosen)
    scripts = Path(sys.executable).parent
    agent = {"WANDB_SWEEP_ID": "abc", "WANDB_MODE": "offline"}  # the real package, told offline
    environment = {**os.environ, **agent, "PATH": f"{scripts}:{os.environ['PATH']}"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/")
    assert done.returncode == 0, done.stderr
    assert "linear lr=0.01 layers=" in done.stdout
    assert "W&B was not told" not in done.stderr
    known = Folder(here / ".selectivbench/sweeps/tiny").known()
    assert list(known.values()) == ["pass"]


def test_a_cell_of_an_agent_tells_its_run_and_no_failure_of_that_takes_the_result(
    here: Path,
    a_record: Record,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    wandb = pytest.importorskip("wandb", reason="the extra `wandb` is not installed")
    told: dict[str, object] = {}

    class Run:
        summary = told

        def log(self, values: dict[str, object], step: int) -> None:
            told[f"step {step}"] = values

    @contextmanager
    def init(**_: object) -> Iterator[Run]:
        yield Run()

    monkeypatch.setattr(wandb, "init", init)
    tell_agent(a_record, "validation", here)
    assert not told  # no agent has started this process
    monkeypatch.setenv("WANDB_SWEEP_ID", "abc")
    tell_agent(a_record, "best_validation", here)
    assert told["step 10"] == {"loss": 2.0, "curve": 0.5}
    assert (told["best_validation"], told["status"]) == (0.5, "pass")
    monkeypatch.setattr(wandb, "init", lambda **_: 1 / 0)
    tell_agent(a_record, "validation", here)
    assert capsys.readouterr().err == "W&B was not told: ZeroDivisionError: division by zero\n"


def as_an_agent(command: list[str], chosen: dict[str, dict[str, object]]) -> list[str]:
    """What W&B's agent makes of a sweep's command; by its own code where it is installed."""
    try:
        from wandb.sdk.launch.sweeps.utils import create_sweep_command_args
    except ImportError:
        arguments = [f"--{name}={of['value']}" for name, of in chosen.items()]
    else:
        arguments = create_sweep_command_args({"args": chosen})["args"]
    words = []
    for word in command:
        words += arguments if word == "${args}" else [word.replace("${env}", "/usr/bin/env")]
    return words


REFUSED = [
    ("sweep run none.toml", "sweep file: got 'none.toml'"),
    ("sweep run tiny.toml --engine rey", "did you mean 'ray'?"),
    ("sweep run tiny.toml --workers 0", "workers: got 0, allowed: 1 or more"),
    ("sweep status tiny.toml", "`selectivbench sweep run tiny.toml`"),
    ("sweep results tiny.toml", "`selectivbench sweep run tiny.toml`"),
    ("sweep cell tiny.toml --lr=0.001", "which several fit"),
    ("sweep cell tiny.toml --lr=0.7 --seed=1", "which none fit"),
    ("sweep cell tiny.toml --lrr=0.001 --seed=1", "did you mean 'lr'?"),
    ("sweep cell tiny.toml lr 0.001", "cell: got 'lr', allowed: lr, seed, submission"),
    ("sweep plan tiny.toml --devices eight", "whole numbers with commas"),
    ("sweep plan tiny.toml", "`selectivbench sweep measure` writes one"),
    ("sweep run huge.toml", "cells: got '1,200,000', allowed: 1,000,000; or --yes"),
    ("sweep run odd.toml", "linear width=100 lr=0.001 seed=1: heads"),
]


@pytest.mark.parametrize(("line", "said"), REFUSED, ids=[line for line, _ in REFUSED])
def test_refusals_are_one_sentence(
    line: str, said: str, sweep_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep_file()
    sweep_file(
        TINY.replace(
            "[choose]", "[random]\ndraws = 300000\nlayers = { low = 1, high = 2 }\n[choose]"
        ),
        "huge.toml",
    )
    odd = TINY.replace("width = 16", "heads = 7").replace("[grid]", "[grid]\nwidth = [100]")
    sweep_file(odd, "odd.toml")
    assert main(line.split()) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_changed_file_is_refused_with_what_differs(
    sweep_file: Write, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sweep_file()
    Folder(Path(".selectivbench/sweeps/tiny")).prepare(json.loads(described(path)))
    sweep_file(TINY.replace("1e-2]", "2e-2]").replace("[1, 2]", "[1]"))
    (here / "linear.py").write_text((here / "linear.py").read_text() + "\n# changed\n")
    assert main(["sweep", "run", str(path)]) == 2
    assert "begun, allowed: a new one" in capsys.readouterr().err.replace("'", "")
    assert main(["sweep", "resume", str(path)]) == 2
    error = capsys.readouterr().err
    for part in ("grid lr: [0.001, 0.02] instead of [0.001, 0.01]", "seeds: [1] instead of [1, 2]"):
        assert part in error
    assert "source linear: " in error


def described(path: Path) -> str:
    from selectivbench.sweep import changes, file

    return json.dumps(changes.described(file.read(path)))


def test_status_names_the_cell_that_failed_and_why(
    sweep_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sweep_file(
        TINY.replace("seeds = [1, 2]", "seeds = [7]").replace("[1e-3, 1e-2]", "[1e-3]")
    )
    (path.parent / "linear.py").write_text(
        "def Mixer(spec):\n    raise ValueError('no such luck')\n"
    )
    assert main(["sweep", "run", str(path), "--workers", "1"]) == 2
    assert "1 of 1 cells failed; `selectivbench sweep status" in capsys.readouterr().err
    main(["sweep", "status", str(path)])
    said = capsys.readouterr().out
    assert "0 of 1 done, 1 failed" in said
    assert "linear lr=0.001 seed=7: error: ValueError: no such luck" in said


def test_models_do_not_come_back_with_records(
    sweep_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    text = 'task = "noisy_gaps"\nsave = true\nprofile = "smoke"\nsubmissions = ["linear.py"]\n'
    path = str(sweep_file(f"{text}seeds = [1]\n[fixed]\nsteps = 2\n"))
    assert main(["sweep", "run", path, "--engine", "ray", "--return-records"]) == 2
    assert "only records come back" in capsys.readouterr().err


def test_measuring_has_no_folder_to_write_to(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["sweep", "measure", "tiny.toml", "--out", "elsewhere"])
    assert "unrecognized arguments: --out elsewhere" in capsys.readouterr().err
