"""The explicit registry of tasks. A new task is one file and one line here."""

from __future__ import annotations

from selectivbench.errors import UsageError, explain, near
from selectivbench.tasks.base import Dataset, Levels, Task
from selectivbench.tasks.distractors import Distractors
from selectivbench.tasks.gap_extrapolation import GapExtrapolation
from selectivbench.tasks.induction import Induction
from selectivbench.tasks.memorization import Memorization
from selectivbench.tasks.mqar import Mqar
from selectivbench.tasks.next_symbol import NextSymbol
from selectivbench.tasks.noisy_gaps import NoisyGaps
from selectivbench.tasks.selective_copy import SelectiveCopy

__all__ = ["TASKS", "Dataset", "Levels", "Task", "get_task"]

TASKS: tuple[Task, ...] = (
    SelectiveCopy(),
    Memorization(),
    NoisyGaps(),
    GapExtrapolation(),
    Distractors(),
    NextSymbol(),
    Mqar(),
    Induction(),
)


def get_task(name: str) -> Task:
    """The task of an id (``selective_copy-v1``) or of a name (its newest version).

    >>> get_task("selective_copy").id
    'selective_copy-v1'
    """
    for task in TASKS:
        if name in (task.id, task.name):
            return task
    raise UsageError(explain("task", name, near(name, (task.name for task in TASKS))))
