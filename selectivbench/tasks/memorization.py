"""Memorization: name the hidden state behind each symbol, which takes the symbols before it."""

from __future__ import annotations

from selectivbench.tasks.base import Dataset, Task
from selectivbench.tasks.elements import ElementData, Plan
from selectivbench.tasks.plans import plan_of

PLANS = {
    **{("smoke", f"amb{a}"): Plan(a, elements=24, train=1_280, held_out=64) for a in (8,)},
    **{("lite", f"amb{a}"): Plan(a, elements=32, train=65_536, held_out=512) for a in (8, 12, 20)},
    **{
        ("paper", f"amb{a}"): Plan(a, elements=200, train=200_000, held_out=1_000)
        for a in (40, 38, 34, 30, 26, 24, 20)
    },
}


class Memorization(Task):
    """A walk through a grammar in which several states emit the same symbol; one blank after each.

    At ambiguity 8 each of 8 symbols belongs to 8 states. Drawn (``.`` blank, ``#`` end of a string,
    after which the next begins; the target is the state, at the symbol and through its gap):

    >>> from selectivbench.tasks.drawing import draw
    >>> print(draw(ElementData("memorization", Plan(8, 24, 64, 8), seed=2), steps=14))
    element  0  0  1  1  2  2  3  3  4  4  5  5  6  6
    step     G  .  A  .  H  .  C  .  D  .  F  .  H  .
    target   G1 G1 A2 A2 H6 H6 C3 C3 D6 D6 F1 F1 H0 H0
    """

    id = "memorization-v1"
    summary = "name the hidden state of a grammar at every step"
    variants = {
        profile: tuple(v for p, v in PLANS if p == profile)
        for profile in ("smoke", "lite", "paper")
    }

    def dataset(self, profile: str, variant: str, seed: int) -> Dataset:
        return ElementData(self.name, plan_of(self, PLANS, profile, variant), seed)
