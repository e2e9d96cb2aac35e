"""A small SVG for each entry that says where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from leaderboard.rank import Standing

WIDTH = 6.6
"""Of a character at 11 px, a little wide, so that no font overflows its half."""


def badge(standings: Sequence[Standing]) -> str:
    """The badge of an entry's first standing (the largest profile it has run)."""
    standing = standings[0]
    left, right = f"SelectivBench {standing.profile}", message(standing)
    a, b = round(len(left) * WIDTH + 12), round(len(right) * WIDTH + 12)
    title = escape(f"{left}: {right}")
    colour = "#1f5fa8" if standing.overall else "#5a636d"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{a + b}" height="20" role="img" '
        f'aria-label="{title}"><title>{title}</title>'
        f'<rect width="{a + b}" height="20" rx="3" fill="#3b4249"/>'
        f'<path d="M{a} 0h{b - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H{a}z" fill="{colour}"/>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" '
        f'font-size="11"><text x="{a / 2:g}" y="14" textLength="{a - 12}">{escape(left)}</text>'
        f'<text x="{a + b / 2:g}" y="14" textLength="{b - 12}">{escape(right)}</text></g></svg>\n'
    )


def message(standing: Standing) -> str:
    """What the right half says: rank and score, or how far the entry has come.

    The words, not the colour, carry it.
    """
    if standing.marks:
        return "marked, not ranked"
    if standing.overall is None:
        cells = standing.cells.values()
        if all(cell.verdict == "ran" for cell in cells):
            return f"{len(cells)} tasks run"
        return f"{sum(cell.verdict == 'pass' for cell in cells)} of {len(cells)} tasks passed"
    return f"{standing.overall.value:.3f}, rank {standing.rank}"
