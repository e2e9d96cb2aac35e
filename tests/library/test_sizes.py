"""Sizes of one's own: what they may be, and what they change in a profile's plan."""

from __future__ import annotations

from typing import Any

import pytest

from selectivbench.errors import UsageError
from selectivbench.profiles import PROFILES, Plan, get_profile
from selectivbench.sizes import AXES, DEADLINE, heads_of, read, resized

LITE = get_profile("lite").plan("memorization")
PAPER = get_profile("paper").plan("memorization")
ELSEWHERE = {
    "width": ("model", "d_model", 64),
    "layers": ("model", "n_layers", 3),
    "heads": ("model", "n_heads", 2),
    "d_state": ("model", "d_state", 32),
    "dropout": ("model", "dropout", 0.1),
    "lr": ("budget", "lr", 7e-3),
    "warmup": ("budget", "warmup", 7),
    "steps": ("budget", "steps", 500),
    "batch_size": ("budget", "batch_size", 16),
    "dataset_size": ("budget", "samples", 4_096),
    "held_out": ("budget", "held_out", 8),
}


def of(plan: Plan, **sizes: Any) -> Plan:
    return resized(plan, read(sizes))


def test_every_axis_is_tried_below() -> None:
    assert set(ELSEWHERE) == set(AXES)


@pytest.mark.parametrize("name", AXES)
def test_each_size_lands_where_it_belongs(name: str) -> None:
    part, field, value = ELSEWHERE[name]
    changed = of(LITE, **{name: value})
    assert getattr(getattr(changed, part), field) == value
    assert changed.facts() != of(LITE).facts()


@pytest.mark.parametrize(("name", "text", "number"), [("lr", "1e-3", 0.001), ("width", "64", 64)])
def test_a_size_may_be_a_text(name: str, text: str, number: float) -> None:
    assert read({name: text}) == read({name: number}) == {name: number}
    assert type(read({name: text})[name]) is type(number)


def test_sizes_come_in_one_order() -> None:
    assert list(read({"lr": 1e-3, "width": 64})) == list(read({"width": 64, "lr": 1e-3}))


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"widht": 64}, r"size: got 'widht', .*did you mean 'width'"),
        ({"learning_rate": 1}, "size: got 'learning_rate'"),
        ({"width": 15}, "width: got 15, allowed: a whole number, 16 to"),
        ({"width": "wide"}, "width: got 'wide'"),
        ({"width": 64.5}, r"width: got 64\.5"),
        ({"width": True}, "width: got True"),
        ({"layers": 0}, "layers: got 0"),
        ({"lr": 0}, "lr: got 0"),
        ({"lr": float("nan")}, "lr: got nan"),
        ({"lr": "inf"}, "lr: got 'inf'"),
        ({"dropout": 1}, "dropout: got 1"),
        ({"warmup": -1}, "warmup: got -1"),
        ({"warmup": 701}, "warmup: got 701, allowed: 0 to 700"),
        ({"steps": 10, "warmup": 11}, "warmup: got 11"),
        ({"heads": 5}, "heads: got 5, allowed: a number that divides the width 48"),
        ({"heads": 4}, "heads: got 4"),
        ({"dataset_size": 63}, "dataset_size: got 63, allowed: 64 or more"),
    ],
)
def test_what_cannot_be_is_said(sizes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        of(LITE, **sizes)


def test_nothing_given_changes_nothing_but_the_deadline() -> None:
    facts = of(LITE).facts()
    assert facts["budget"].pop("deadline") == DEADLINE
    plain = LITE.facts()
    del plain["budget"]["deadline"]
    assert facts == plain


def test_blocks_keep_their_budget_in_squares_of_the_width() -> None:
    assert of(LITE, width=64).model.block_budget == 12 * 64**2
    assert of(PAPER, width=512).model.block_budget == 0


def test_fewer_steps_cut_warm_up_and_validations_along() -> None:
    budget = of(LITE, steps=3).budget
    assert (budget.steps, budget.warmup, budget.validations) == (3, 1, 3)


@pytest.mark.parametrize(
    ("width", "heads"),
    [
        *((256, 4), (384, 4), (512, 4), (648, 8), (768, 8), (960, 8), (1_024, 8), (1_152, 16)),
        *((1_296, 16), (64, 4), (32, 2)),
    ],
)
def test_published_heads(width: int, heads: int) -> None:
    """Four while a head is 128 wide at most, then the least power of two that keeps it so."""
    assert heads_of(width, published=True) == heads
    assert of(PAPER, width=width).model.n_heads == heads


@pytest.mark.parametrize(("width", "heads"), [(16, 1), (32, 2), (48, 3), (64, 4), (40, 2), (17, 1)])
def test_heads_of_a_small_width_are_sixteen_wide_or_more(width: int, heads: int) -> None:
    assert heads_of(width, published=False) == heads
    assert width // heads >= 16


def test_a_width_without_published_heads() -> None:
    with pytest.raises(UsageError, match=r"width: got 257, .*give heads too"):
        of(PAPER, width=257)
    assert of(PAPER, width=257, heads=1).model.n_heads == 1


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda p: p.name)
def test_profiles_follow_the_rules_for_heads_themselves(profile: Any) -> None:
    for plan in (profile.default_plan, *profile.plans.values()):
        size = plan.model
        assert size.n_heads == heads_of(size.d_model, size.post_norm)
