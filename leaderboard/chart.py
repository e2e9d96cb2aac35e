"""What a chart is, whoever draws it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Chart:
    """One drawn figure: for the page, for a file of its own, and as numbers.

    path: of the saved files, without their ending, from the site's root.
    """

    id: str
    title: str
    note: str
    path: str
    svg: str
    """For a page: coloured by the page's style sheet."""
    alone: str
    """A file of its own, with its colours in it."""
    csv: str
