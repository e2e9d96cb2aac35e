"""Distractors: symbols that do not belong to the grammar come in between and must be ignored."""

from __future__ import annotations

from selectivbench.oracle import Distractors as Process
from selectivbench.tasks.base import Dataset, Task
from selectivbench.tasks.elements import ElementData, Plan
from selectivbench.tasks.plans import plan_of

NO_BLANKS = (0, 0)

PLANS = {
    ("smoke", "base"): Plan(8, 24, 1_280, 64, gap=NO_BLANKS, distractors=Process(0.1, onset=6)),
    ("lite", "base"): Plan(8, 40, 65_536, 512, gap=NO_BLANKS, distractors=Process(0.1, onset=10)),
    ("lite", "dense"): Plan(8, 40, 65_536, 512, gap=NO_BLANKS, distractors=Process(0.3, onset=10)),
    ("paper", "base"): Plan(
        40, 200, 200_000, 1_000, gap=NO_BLANKS, distractors=Process(0.1, onset=50)
    ),
}


class Distractors(Task):
    """No blanks; from a quarter of the way on, an element is followed with probability 0.1 by one
    symbol that cannot follow it grammatically, drawn uniformly from those.

    Drawn (a distractor in brackets; its target is the state it does not change):

    >>> from selectivbench.tasks.drawing import draw
    >>> print(draw(Distractors().dataset("smoke", "base", seed=2), index=4, steps=14))
    element  0  1  2  3  4  5  6  7  8  9  10 10  11 12
    step     G  E  B  C  F  D  D  E  B  A  B  (#) A  A
    target   G5 E3 B2 C7 F3 D2 D3 E6 B3 A0 B1 B1  A7 A1
    """

    id = "distractors-v1"
    summary = "name the hidden state while ignoring symbols that break the grammar"
    variants = {"smoke": ("base",), "lite": ("dense", "base"), "paper": ("base",)}

    def dataset(self, profile: str, variant: str, seed: int) -> Dataset:
        return ElementData(self.name, plan_of(self, PLANS, profile, variant), seed)
