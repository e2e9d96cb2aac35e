"""Noisy gaps: the hidden state again, held through silences of unknown length, all under noise."""

from __future__ import annotations

from selectivbench.tasks.base import Dataset, Task
from selectivbench.tasks.elements import ElementData, Plan
from selectivbench.tasks.plans import plan_of

RANDOM = (1, 10)
GAPS = (("test", None), ("test-gap10", (10, 10)))

PLANS = {
    ("smoke", "base"): Plan(8, 8, 1_280, 64, gap=RANDOM, gaps=GAPS, noise=0.2),
    ("lite", "base"): Plan(8, 16, 65_536, 512, gap=RANDOM, gaps=GAPS, noise=0.2),
    ("paper", "base"): Plan(40, 200, 200_000, 1_000, gap=RANDOM, gaps=GAPS, noise=0.2),
}
SCORED = {"smoke": ("test",), "lite": ("test-gap10",), "paper": ("test-gap10",)}
"""The longest gap throughout, as published: it separates better than gaps as in training."""


class NoisyGaps(Task):
    """After each symbol a gap of 1 to 10 blanks; noise from [0, 0.2) on every entry of every step.

    Drawn (``.`` blank; noise is not shown; the target is held through the gap):

    >>> from selectivbench.tasks.drawing import draw
    >>> print(draw(NoisyGaps().dataset("smoke", "base", seed=2), steps=14))
    element  0  0  0  0  1  1  1  1  1  2  2  2  3  3
    step     G  .  .  .  E  .  .  .  .  F  .  .  B  .
    target   G5 G5 G5 G5 E3 E3 E3 E3 E3 F7 F7 F7 B1 B1
    """

    id = "noisy_gaps-v2"
    summary = "keep the hidden state through noisy gaps of 1 to 10 blanks"
    variants = {"smoke": ("base",), "lite": ("base",), "paper": ("base",)}

    def dataset(self, profile: str, variant: str, seed: int) -> Dataset:
        plan = plan_of(self, PLANS, profile, variant)
        return ElementData(self.name, plan, seed, scored=SCORED[profile])
