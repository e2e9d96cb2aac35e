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
from typing import Any

import pytest

import leaderboard
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


@pytest.mark.parametrize("task", TASKS, ids=lambda t: str(t.id))
def test_the_committed_example_is_that_of_the_task(task: Any) -> None:
    committed = json.loads(COMMITTED.read_text(encoding="utf-8"))
    if os.environ.get("UPDATE_EXAMPLES"):
        committed[task.id] = example(task)
        text = json.dumps(committed, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        COMMITTED.write_text(text, encoding="utf-8")
    assert committed.get(task.id) == example(task), REMEDY


def test_no_example_is_left_of_a_task_that_is_gone() -> None:
    committed = json.loads(COMMITTED.read_text(encoding="utf-8"))
    assert set(committed) <= {task.id for task in TASKS}, "remove it from examples.json"
