"""Datasets of which a rehearsal uses the first held-out samples only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from selectivbench.job import Job
from selectivbench.machine import Device
from selectivbench.profiles import get_profile
from selectivbench.submission import load
from selectivbench.tasks import get_task
from selectivbench.tasks.shortened import Shortened
from selectivbench.template import write


@pytest.fixture
def job(tmp_path: Path) -> Any:
    def make(profile: str, steps: int | None, task: str = "memorization") -> Job:
        path = tmp_path / "mine.py"
        if not path.exists():
            write(path)
        asked = get_task(task)
        variant = asked.variants[profile][0]
        device = Device("cpu", "cpu")
        return Job(load(path), (asked,), variant, get_profile(profile), 1, device, steps)

    return make


def test_only_held_out_splits_are_shortened() -> None:
    whole = get_task("noisy_gaps").dataset("smoke", "base", 1)
    short = Shortened(whole, 5)
    assert short.sizes["train"] == whole.sizes["train"]
    assert {size for split, size in short.sizes.items() if split != "train"} == {5}
    assert Shortened(whole, 10**9).sizes == whole.sizes
    for name in ("encoding", "n_classes", "max_length", "metric", "evaluations", "reported"):
        assert getattr(short, name) == getattr(whole, name)
    assert short.levels("test") == whole.levels("test")
    assert short.described("test") is None
    assert (short.batch("test", [3]).tokens == whole.batch("test", [3]).tokens).all()


def test_in_a_rehearsal_no_split_costs_more_than_its_samples_of_training() -> None:
    whole = get_task("gap_extrapolation").dataset("smoke", "base", 1)
    short = Shortened(whole, 32, even=True)
    steps = {split: whole.batch(split, [0]).tokens.shape[1] for split in whole.sizes}
    for split in whole.evaluations:
        assert short.sizes[split] == max(1, round(32 * steps["train"] / steps[split]))
    assert (short.sizes["train"], short.sizes["validation"]) == (1_280, 32)
    assert short.sizes["test-gap10"] > short.sizes["test-gap100"] > 1
    assert Shortened(whole, 2, even=True).sizes["test-gap100"] == 1


def test_the_exact_distributions_are_those_of_the_dataset() -> None:
    whole = get_task("next_symbol").dataset("smoke", "gaps", 1)
    assert np.array_equal(Shortened(whole, 2).reference("test", [1]), whole.reference("test", [1]))


@pytest.mark.parametrize(
    ("profile", "steps", "held_out"),
    [("paper", 2, 8), ("paper", None, 1_000), ("lite", 2, 512), ("smoke", 2, 64)],
)
def test_a_rehearsal_of_paper_uses_four_samples_for_each_step(
    job: Any, profile: str, steps: int | None, held_out: int
) -> None:
    asked = job(profile, steps)
    assert asked.dataset(asked.tasks[0]).sizes["test"] == held_out


def test_a_number_of_ones_own_is_taken_as_it_is(job: Any) -> None:
    rehearsed = job("paper", 2, "gap_extrapolation")
    own = replace(rehearsed, custom={"held_out": 8})
    sizes = [asked.dataset(asked.tasks[0]).sizes["test-gap100"] for asked in (rehearsed, own)]
    assert sizes == [1, 8]


def test_a_rehearsal_says_so_in_its_budget(job: Any) -> None:
    assert job("paper", 2).budget["budget"]["held_out"] == 8
    assert "held_out" not in job("paper", None).budget["budget"]


@pytest.mark.parametrize(
    ("profile", "device", "declared", "dtype"),
    [
        ("paper", "cuda", "bfloat16", "bfloat16"),
        ("paper", "cuda", None, None),
        ("paper", "cpu", "bfloat16", None),
        ("lite", "cuda", "bfloat16", None),
    ],
)
def test_a_declared_dtype_holds_in_paper_on_cuda(
    job: Any, profile: str, device: str, declared: str | None, dtype: str | None
) -> None:
    asked = job(profile, None)
    submission = replace(asked.submission, dtype=declared)
    asked = replace(asked, submission=submission, device=Device(device, device))
    assert asked.plan.model.dtype == dtype
    assert asked.budget["model"].get("dtype") == dtype


def test_papers_sizes_are_as_published() -> None:
    paper = get_profile("paper")
    for task in ("memorization", "noisy_gaps", "distractors"):
        model, budget = paper.plan(task).model, paper.plan(task).budget
        assert (model.n_layers, model.dropout, model.post_norm, model.block_budget) == (
            8,
            0.2,
            True,
            0,
        )
        assert (budget.batch_size, budget.steps, budget.warmup, budget.clip) == (64, 3_125, 476, 1)
        assert budget.steps * budget.batch_size == 200_000
        assert budget.steps * budget.batch_size / budget.validations == 5_000
        sizes = get_task(task).dataset("paper", get_task(task).variants["paper"][0], 1).sizes
        assert (sizes["train"], sizes["test"]) == (200_000, 1_000)
    assert paper.plan("distractors").model.d_state == 64
    assert paper.plan("memorization").model.d_state is None  # then a file has its own
    assert paper.seeds == (1, 2, 3, 4)
