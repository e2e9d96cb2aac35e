"""Looks up what a task does at a profile and variant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from selectivbench.errors import UsageError, explain, near
from selectivbench.tasks.base import Task

P = TypeVar("P")


def plan_of(task: Task, plans: Mapping[tuple[str, str], P], profile: str, variant: str) -> P:
    """The plan of a profile and variant; UsageError naming those there are."""
    return plans[profile, variant_of(task, profile, variant)]


def variant_of(task: Task, profile: str, variant: str | None) -> str:
    """The variant that was asked for, None being the first; UsageError naming those there are."""
    if not (known := task.variants.get(profile)):
        raise UsageError(explain("profile", profile, near(profile, task.variants)))
    if variant is None:
        return known[0]
    if variant not in known:
        raise UsageError(
            explain(f"variant of {task.id} at {profile}", variant, near(variant, known))
        )
    return variant
