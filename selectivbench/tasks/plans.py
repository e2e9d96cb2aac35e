"""Looks up what a task does at a profile and variant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from selectivbench.errors import UsageError, explain, near
from selectivbench.tasks.base import Task

P = TypeVar("P")


def plan_of(task: Task, plans: Mapping[tuple[str, str], P], profile: str, variant: str) -> P:
    """The plan of a profile and variant; UsageError naming those there are."""
    if profile not in task.variants:
        raise UsageError(explain("profile", profile, near(profile, task.variants)))
    if variant not in task.variants[profile]:
        known = near(variant, task.variants[profile])
        raise UsageError(explain(f"variant of {task.id} at {profile}", variant, known))
    return plans[profile, variant]
