"""How many sequences a child is asked for at once."""

from __future__ import annotations

import pytest

from selectivbench.dialogue import LARGEST_BATCH, rows_at_once
from selectivbench.tasks import TASKS, get_task
from selectivbench.tasks.base import Task

LITE = [(task, variant) for task in TASKS for variant in task.variants.get("lite", ())]


@pytest.mark.parametrize(("task", "variant"), LITE, ids=lambda value: getattr(value, "id", value))
def test_lites_questions_stay_as_they_are(task: Task, variant: str) -> None:
    """The rounding of its logits, and so its published figures, may depend on them."""
    assert rows_at_once(task.dataset("lite", variant, 1)) == LARGEST_BATCH


@pytest.mark.parametrize(
    ("task", "variant", "rows"),
    [
        ("induction", "base", 8),  # sequences of 16,384 steps: by their steps
        ("selective_copy", "long", 31),
        ("gap_extrapolation", "base", 1),  # 20,200 steps of 1,601 classes: by their logits
        ("selective_copy", "base", LARGEST_BATCH),
    ],
)
def test_papers_questions_fit_the_memory(task: str, variant: str, rows: int) -> None:
    assert rows_at_once(get_task(task).dataset("paper", variant, 1)) == rows
