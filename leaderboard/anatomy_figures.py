"""Where an entry is wrong: a sentence for each task, and the bars that it is read from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leaderboard.bars import Bars, bars
from leaderboard.figures import Chart
from leaderboard.rank import Cell, Standing
from leaderboard.view import key_order, task_label
from selectivbench.anatomy import AXES, Anatomy, Facet, diagnose, merged

Anatomies = Mapping[str, Anatomy]
"""By the label of a task and variant."""


def of_standing(standing: Standing) -> Anatomies:
    """The sum over seeds and splits, for each task that has an anatomy."""
    cells = [standing.cells[key] for key in sorted(standing.cells, key=key_order)]
    found = {task_label(cell): _sum(cell) for cell in cells}
    return {label: anatomy for label, anatomy in found.items() if anatomy is not None}


def _sum(cell: Cell) -> Anatomy | None:
    parts = [anatomy for case in cell.cases if (anatomy := case.anatomy()) is not None]
    return merged(parts) if parts else None


def sentences(anatomies: Anatomies) -> list[tuple[str, str, str]]:
    """(task, where it is wrong, which mistakes are the most frequent)."""
    return [(label, _said(anatomy), _mistakes(anatomy)) for label, anatomy in anatomies.items()]


def _said(anatomy: Anatomy) -> str:
    if not anatomy.wrong:
        return "no element is wrong"
    return diagnose(anatomy) or "its errors keep to no kind of element"


def _mistakes(anatomy: Anatomy) -> str:
    if not anatomy.wrong:
        return ""
    near = f"{anatomy.rivals / anatomy.wrong:.0%} of its wrong answers name a near rival"
    pairs = ", ".join(f"{m.answered} for {m.asked} ({m.count})" for m in anatomy.mistakes[:3])
    return f"{near}; most frequent: {pairs}" if pairs else near


def chart(standing: Standing, anatomies: Anatomies) -> Chart | None:
    """The share named in each bin, a panel for each facet of each task."""
    facets = [(label, f) for label, anatomy in anatomies.items() for f in _told(anatomy.facets)]
    if not facets:
        return None
    own = f"{standing.profile}-{standing.device}"
    parts = [Bars(label, _title(f.by), tuple(_shares(f))) for label, f in facets]
    rows = tuple(
        (label, f.by, *row)
        for label, f in facets
        for row in zip(f.bins, f.counts, f.rights, f.best, strict=True)
    )
    return Chart(
        f"anatomy-{own}",
        "Where it is right",
        "share of what can be known that it names; pale: fewer than 30 elements",
        f"charts/{standing.entry.id}-{own}-anatomy",
        bars("Share named by what an element asks, by task", parts),
        ("task", "by", "bin", "elements", "right", "can_be_known"),
        rows,
    )


def _told(facets: Sequence[Facet]) -> list[Facet]:
    """Those with something to compare."""
    return [facet for facet in facets if len(facet.bins) > 1]


def _title(by: str) -> str:
    return AXES[by].title if by in AXES else by


def _shares(facet: Facet) -> list[tuple[str, float, int]]:
    """(bin, share, elements that can be known) of bins that have some."""
    rows = zip(facet.bins, facet.rights, facet.best, strict=True)
    return [(name, min(1.0, right / best), best) for name, right, best in rows if best]
