"""The committed examples are those of the tasks; the site itself imports no task.

To refresh them: UPDATE_EXAMPLES=1 python -m pytest tests/leaderboard/test_examples.py
"""

from __future__ import annotations

import doctest
import inspect
import json
import os
import re
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import leaderboard
from leaderboard.rank import SEEDS
from selectivbench.tasks import TASKS

COMMITTED = Path(leaderboard.__file__).parent / "examples.json"
REMEDY = "run UPDATE_EXAMPLES=1 python -m pytest tests/leaderboard/test_examples.py and commit it"


def example(task: Any) -> dict[str, str]:
    """Summary, first paragraph and drawn example of a task."""
    text = inspect.getdoc(type(task)) or ""
    wants = [e.want for e in doctest.DocTestParser().get_examples(text) if e.want.strip()]
    about = " ".join(text.split("\n\n", 1)[0].split())
    drawn = re.search(r"Drawn\b.*?:(?=\s*\n\n)", text, re.DOTALL)
    legend = " ".join(drawn[0].split()).rstrip(":") if drawn else ""
    fields = {"summary": task.summary, "about": about, "legend": legend}
    plain = {name: value.replace("``", "") for name, value in fields.items()}
    return {**plain, "drawn": wants[0].rstrip("\n") if wants else ""}


def windows(task: Any) -> dict[str, dict[str, list[float]]]:
    """What knowing the last 1, 2, … symbols reaches on lite, means over seeds and test splits."""
    found = {}
    for variant in task.variants["lite"]:
        data = [task.dataset("lite", variant, seed) for seed in SEEDS["lite"]]
        levels = [d.levels(split).windows for d in data for split in d.evaluations]
        if all(levels):
            found[variant] = [round(fmean(at), 4) for at in zip(*levels, strict=True)]
    return {"lite": found} if found else {}


@pytest.mark.parametrize("task", TASKS, ids=lambda t: str(t.id))
def test_the_committed_example_is_that_of_the_task(task: Any) -> None:
    committed = json.loads(COMMITTED.read_text(encoding="utf-8"))
    if os.environ.get("UPDATE_EXAMPLES"):
        committed[task.id] = {**example(task), "windows": windows(task)}
        text = json.dumps(committed, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        COMMITTED.write_text(text, encoding="utf-8")
    found = {k: v for k, v in committed.get(task.id, {}).items() if k != "windows"}
    assert found == example(task), REMEDY


@pytest.mark.full
@pytest.mark.parametrize("task", TASKS, ids=lambda t: str(t.id))
def test_the_committed_windows_are_those_of_the_task(task: Any) -> None:
    committed = json.loads(COMMITTED.read_text(encoding="utf-8"))
    assert committed[task.id]["windows"] == windows(task), REMEDY


def test_no_example_is_left_of_a_task_that_is_gone() -> None:
    committed = json.loads(COMMITTED.read_text(encoding="utf-8"))
    assert set(committed) <= {task.id for task in TASKS}, "remove it from examples.json"
