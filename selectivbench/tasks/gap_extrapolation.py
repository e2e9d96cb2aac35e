"""Gap extrapolation: a model trained on noisy gaps meets longer ones, which it has never seen."""

from __future__ import annotations

from collections.abc import Mapping

from selectivbench.tasks.base import Dataset, Task
from selectivbench.tasks.elements import ElementData, Plan
from selectivbench.tasks.noisy_gaps import LONG, RANDOM, NoisyGaps, fixed
from selectivbench.tasks.plans import plan_of

PUBLISHED = (10, 20, 50, 100)
"""Gap steps of each test. Lite looks near by: at its size and budget most models are at the floor at
five times the longest trained gap, which tells nothing."""
SCORED = {"smoke": 4, "lite": 1, "paper": 4}
"""How many of the gaps count, the shortest first. At twice the trained gap a model of lite's size is
right or wrong by luck: its spread between seeds is wider than the distance between models."""

PLANS = {
    ("smoke", "base"): Plan(8, 8, 1_280, 32, gap=RANDOM, gaps=fixed(*PUBLISHED), noise=0.2),
    ("lite", "long"): Plan(8, 12, 65_536, 256, gap=LONG, gaps=fixed(20, 28), noise=0.2),
    ("lite", "base"): Plan(8, 16, 65_536, 256, gap=RANDOM, gaps=fixed(15, 20), noise=0.2),
    ("paper", "base"): Plan(40, 200, 200_000, 1_000, gap=RANDOM, gaps=fixed(*PUBLISHED), noise=0.2),
}


class GapExtrapolation(Task):
    """The training of ``noisy_gaps``, tested at fixed gaps: 10, 20, 50 and 100 blanks as published.
    Lite trains on up to 14 and tests at 20, with 28 shown beside it (``base``: 10, 15 and 20).

    Training and validation samples are byte for byte those of ``noisy_gaps``. Drawn, a gap of 10
    (``.`` blank; noise is not shown):

    >>> from selectivbench.tasks.drawing import draw
    >>> print(draw(GapExtrapolation().dataset("smoke", "base", seed=2), "test-gap10", steps=14))
    element  0  0  0  0  0  0  0  0  0  0  0  1  1  1
    step     G  .  .  .  .  .  .  .  .  .  .  A  .  .
    target   G5 G5 G5 G5 G5 G5 G5 G5 G5 G5 G5 A5 A5 A5
    """

    id = "gap_extrapolation-v2"
    summary = "hold the hidden state through gaps longer than any in training"
    variants = {"smoke": ("base",), "lite": ("long", "base"), "paper": ("base",)}

    @property
    def trains_on(self) -> str:
        return NoisyGaps.id

    def dataset(self, profile: str, variant: str, seed: int) -> Dataset:
        plan = plan_of(self, PLANS, profile, variant)
        names = [name for name, _ in plan.gaps]
        count = SCORED[profile]
        return ElementData("noisy_gaps", plan, seed, names[:count], names[count:])


def longest_gap(scores: Mapping[str, float], threshold: float) -> int:
    """The longest gap such that it and every shorter one reach the threshold; 0 if none does.

    scores: by evaluation, as in ``Dataset.evaluations``.

    >>> longest_gap({"test-gap10": 0.9, "test-gap20": 0.8, "test-gap50": 0.4}, threshold=0.75)
    20
    """
    longest = 0
    for steps, score in sorted(
        (int(name.removeprefix("test-gap")), s) for name, s in scores.items()
    ):
        if score < threshold:
            return longest
        longest = steps
    return longest
