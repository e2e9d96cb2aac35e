"""The bare loop is the same training, and the comparison counts what it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from selectivbench import bare, overhead
from selectivbench.errors import SubmissionError, UsageError
from selectivbench.overhead import Comparison, Pair, ratios
from selectivbench.runner import run
from selectivbench.sandbox.launch import InProcess
from selectivbench.tracking import NullTracker
from tests.library.test_runner import MIXER

TOLD = """
from torch import nn


class Mixer(nn.Identity):
    def __init__(self, spec):
        super().__init__()
        self.told = spec.d_state
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(MIXER.format(forward=""))
    return file


@pytest.fixture
def small(path: Path) -> Comparison:
    return Comparison(path, "selective_copy", "smoke", steps=20, pairs=1)


def test_the_bare_loop_comes_to_the_harness_own_loss(small: Comparison) -> None:
    """Smoke's curve has a point a step, so the last one is the last step's loss: to the bit."""
    job = small.job()
    (record,) = run(job, InProcess("cpu", frozenset()), NullTracker(), lambda fit: fit())
    assert bare.loop(bare.prepare(job)) == record.curve[-1].loss


def test_both_sides_are_measured_in_turns(small: Comparison) -> None:
    text = overhead.table(small)
    assert text.startswith("mine.py on selective_copy, smoke, 20 steps, one thread; CPU seconds")
    (row,) = (line for line in text.splitlines() if line.startswith("| 1 |"))
    child, controller, loop, ratio, whole = (float(cell) for cell in row.split("|")[2:-1])
    assert child > 0
    assert controller > 0
    assert loop > 0
    assert ratio < whole
    assert "promised 1.03" in text
    assert "promised 1.05" in text


def test_the_bare_loop_validates_as_often_as_the_harness(
    small: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the steps are no multiple: every first of 20 would be eight too many."""
    job = small.job()
    plan = job.profile.default_plan
    often = replace(plan, budget=replace(plan.budget, validations=12))
    given = bare.prepare(replace(job, profile=replace(job.profile, default_plan=often)))
    predicted: list[int] = []
    monkeypatch.setattr(bare, "_predict", lambda _, inputs: predicted.append(len(inputs)))
    bare.loop(given)
    assert len(predicted) == 12 + 1


def test_the_bare_loop_builds_what_the_child_builds(tmp_path: Path) -> None:
    """The hint of a state's size too, which some profiles give."""
    file = tmp_path / "told.py"
    file.write_text(TOLD)
    order = bare.prepare(Comparison(file, "selective_copy", "smoke", 1).job()).order
    order = replace(order, size=replace(order.size, d_state=64))
    assert bare._model(order).blocks[0].mixer.told == 64  # type: ignore[union-attr, index]


def test_the_bare_loop_refuses_what_the_child_refuses(tmp_path: Path) -> None:
    file = tmp_path / "none.py"
    file.write_text("Mixer = 3")
    order = bare.prepare(Comparison(file, "selective_copy", "smoke", 1).job()).order
    with pytest.raises(SubmissionError, match=r"Mixer: got 'int', allowed: a callable"):
        bare._model(order)


def test_ratios_are_medians_over_pairs() -> None:
    pairs = [Pair(11, 1, 10), Pair(30, 6, 20), Pair(102, 3, 100)]
    assert ratios(pairs) == (1.1, 1.2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": "memory"}, "memorization"),
        ({"profile": "lit"}, "did you mean 'lite'"),
        ({"steps": 10_000}, "steps: got 10000"),
        ({"pairs": 0}, "pairs: got 0"),
    ],
)
def test_bad_input_is_one_sentence(path: Path, changes: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Comparison(path, **changes).job()  # type: ignore[arg-type]
