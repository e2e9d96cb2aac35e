"""What a claim is: its words, where they are from, our figures, and whether it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from selectivbench.evidence.contrasts import Figure

Verdict = Literal["holds", "holds in part", "does not hold", "undecided", "not run"]

TEXTBOOK = "the textbook's selective-copy chapter"
ABSTRACT = "SelectivBench, abstract (arXiv 2601.12598)"
OURS = "this benchmark"


@dataclass(frozen=True)
class Claim:
    """A claim, where it is from, and what the committed evidence says of it."""

    text: str
    source: str
    verdict: Verdict
    figures: tuple[Figure, ...] = ()
    note: str = ""


def verdict_of(*held: bool) -> Verdict:
    """All of a claim's parts, some, or none."""
    if all(held):
        return "holds"
    return "holds in part" if any(held) else "does not hold"
