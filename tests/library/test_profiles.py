"""Profiles: sizes and budgets as data."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest

from selectivbench.errors import UsageError
from selectivbench.profiles import PROFILES, Budget, ModelSize, Plan, get_profile
from selectivbench.record import digest

RESULTS = Path(__file__).parents[2] / "leaderboard" / "results"


def test_the_profiles_are_pinned() -> None:
    assert {name: p.seeds for name, p in PROFILES.items()} == {
        "smoke": (1,),
        "lite": (1, 2, 3),
        "paper": (1, 2, 3, 4),
    }
    assert [p.name for p in PROFILES.values()] == list(PROFILES)
    assert [p.name for p in PROFILES.values() if p.conformance] == ["smoke"]


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_reached_by_its_name(name: str) -> None:
    assert get_profile(name).name == name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("lit", r"profile: got 'lit', allowed: lite, paper, smoke \(did you mean 'lite'\?\)"),
        ("LITE", "lite, paper, smoke"),
        ("", "lite, paper, smoke"),
    ],
)
def test_an_unknown_profile_is_a_usage_error(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        get_profile(name)


def test_a_task_without_a_plan_of_its_own_has_the_default() -> None:
    lite = get_profile("lite")
    assert lite.plan("memorization") == lite.default_plan
    assert lite.plan("selective_copy").budget.steps == 1_200


@pytest.mark.parametrize(
    ("steps", "warmup", "validations"), [(1, 0, 1), (3, 1, 3), (60, 30, 6), (600, 50, 6)]
)
def test_a_cut_budget_cuts_warm_up_and_validations_along(
    steps: int, warmup: int, validations: int
) -> None:
    lite = get_profile("lite")
    whole, cut = lite.plan("selective_copy"), lite.plan("selective_copy", steps)
    budget = cut.budget
    assert (budget.steps, budget.warmup, budget.validations) == (steps, warmup, validations)
    assert (budget.lr, budget.batch_size, cut.model) == (
        whole.budget.lr,
        whole.budget.batch_size,
        whole.model,
    )


@pytest.mark.parametrize("steps", [0, -5])
def test_a_budget_of_no_steps_is_refused(steps: int) -> None:
    with pytest.raises(UsageError, match="steps: got"):
        get_profile("lite").plan("selective_copy", steps)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda p: p.name)
def test_plans_make_sense(profile: Any) -> None:
    for plan in (profile.default_plan, *profile.plans.values()):
        size, budget = plan.model, plan.budget
        assert size.d_model % size.n_heads == 0
        assert size.d_model // size.n_heads >= 16  # what a mixer's spec promises
        assert size.post_norm == (size.block_budget == 0)
        assert 0 <= budget.warmup < budget.steps
        assert 0 < budget.validations <= budget.steps
        assert min(budget.lr, budget.deadline, budget.clip) > 0


COMMITTED = sorted(RESULTS.glob("*-lite-*.json"))


@pytest.mark.parametrize("file", COMMITTED, ids=lambda file: file.stem)
def test_the_budget_of_a_committed_record_has_its_digest(file: Path) -> None:
    """A field that came later does not show in a plan that does not set it."""
    record = json.loads(file.read_text(encoding="utf-8"))
    model, budget = record["budget"]["model"], record["budget"]["budget"]
    facts = Plan(ModelSize(**model), Budget(**budget)).facts()
    assert digest(facts) == record["identity"]["budget_digest"]


@pytest.mark.parametrize("profile", ["smoke", "lite"])
def test_smoke_and_lite_set_nothing_that_came_later(profile: str) -> None:
    record = json.loads(COMMITTED[0].read_text(encoding="utf-8"))
    facts = get_profile(profile).plan("memorization").facts()
    assert {part: set(fields) for part, fields in facts.items()} == {
        part: set(fields) for part, fields in record["budget"].items()
    }


def test_a_plans_facts_are_what_it_sets() -> None:
    plan = get_profile("lite").plan("memorization")
    assert "d_state" not in plan.facts()["model"]
    assert "samples" not in plan.facts()["budget"]
    hinted = replace(plan, model=replace(plan.model, d_state=64))
    assert hinted.facts()["model"] == {**plan.facts()["model"], "d_state": 64}


def test_profiles_are_frozen() -> None:
    lite: Any = get_profile("lite")
    with pytest.raises(FrozenInstanceError):
        lite.seeds = (9,)
    with pytest.raises(TypeError):
        lite.plans["x"] = None
    registry: Any = PROFILES
    with pytest.raises(TypeError):
        registry["x"] = lite
