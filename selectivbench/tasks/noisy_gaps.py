"""Noisy gaps: the hidden state again, held through silences of unknown length, all under noise."""

from __future__ import annotations

from selectivbench.tasks.base import Dataset, Task
from selectivbench.tasks.elements import ElementData, Gap, Plan
from selectivbench.tasks.plans import plan_of

RANDOM, LONG = (1, 10), (1, 14)
"""Gap steps in training: as published, and those of lite's verdict."""


def fixed(*steps: int) -> tuple[tuple[str, Gap], ...]:
    """An evaluation for each gap: so many blanks throughout."""
    return tuple((f"test-gap{gap}", (gap, gap)) for gap in steps)


def _tests(longest: int) -> tuple[tuple[str, Gap | None], ...]:
    """Gaps as in training, and the longest throughout."""
    return ("test", None), *fixed(longest)


PLANS = {
    ("smoke", "base"): Plan(8, 8, 1_280, 64, gap=RANDOM, gaps=_tests(10), noise=0.2),
    ("lite", "long"): Plan(8, 12, 65_536, 512, gap=LONG, gaps=_tests(14), noise=0.2),
    ("lite", "base"): Plan(8, 16, 65_536, 512, gap=RANDOM, gaps=_tests(10), noise=0.2),
    ("paper", "base"): Plan(40, 200, 200_000, 1_000, gap=RANDOM, gaps=_tests(10), noise=0.2),
}


class NoisyGaps(Task):
    """After each symbol a gap of 1 to 10 blanks; noise from [0, 0.2) on every entry of every step.

    Scored at the longest gap throughout, as published: it separates better than gaps as in training.
    Lite's variant ``long`` has gaps of 1 to 14 and fewer elements, in sequences as long: a model that
    counts steps instead of symbols falls further behind.

    Drawn (``.`` blank; noise is not shown; the target is held through the gap):

    >>> from selectivbench.tasks.drawing import draw
    >>> print(draw(NoisyGaps().dataset("smoke", "base", seed=2), steps=14))
    element  0  0  0  0  1  1  1  1  1  2  2  2  3  3
    step     G  .  .  .  E  .  .  .  .  F  .  .  B  .
    target   G5 G5 G5 G5 E3 E3 E3 E3 E3 F7 F7 F7 B1 B1
    """

    id = "noisy_gaps-v2"
    summary = "keep the hidden state through noisy gaps of random length"
    variants = {"smoke": ("base",), "lite": ("long", "base"), "paper": ("base",)}

    def dataset(self, profile: str, variant: str, seed: int) -> Dataset:
        plan = plan_of(self, PLANS, profile, variant)
        names = [name for name, _ in plan.gaps]
        scored = names[:1] if profile == "smoke" else names[1:]
        return ElementData(self.name, plan, seed, scored)
