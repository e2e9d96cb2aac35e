"""``summary``: records as a Markdown table, for the page of a workflow run."""

from __future__ import annotations

import re

from leaderboard.load import Loaded
from leaderboard.rank import Cell, Standing, standings
from leaderboard.view import figure, key_order, task_label

HEAD = ("Entry", "Profile", "Device", "Task", "Score", "Bar", "Seeds", "Verdict")


def markdown(loaded: Loaded) -> str:
    """One line a task of each standing, then what was refused and why tasks failed."""
    lines = ["| " + " | ".join(HEAD) + " |", "|" + " --- |" * len(HEAD)]
    marks = []
    for standing in standings(loaded.cases, audits=loaded.audits):
        marks += [f"- marked {plain(standing.entry.id)}: {plain(text)}" for text in standing.marks]
        keys = sorted(standing.cells, key=key_order)
        lines.extend(_row(standing, standing.cells[key]) for key in keys)
    causes = [
        f"- {plain(c.record.identity.stem)}: {c.record.status}: {plain(c.record.cause)}"
        for c in loaded.cases
        if c.record.cause
    ]
    refused = [f"- refused {plain(r.file)}: {plain(r.reason)}" for r in loaded.refused]
    notes = [*marks, *causes, *refused]
    return "\n".join([*lines, *([""] if notes else []), *notes]) + "\n"


def _row(standing: Standing, cell: Cell) -> str:
    mean = cell.mean
    half = f" ± {figure(mean.half, 'score')}" if mean and mean.half is not None else ""
    cells = (
        standing.entry.id,
        standing.profile,
        standing.device,
        task_label(cell),
        f"{figure(mean.value, 'score')}{half}" if mean else "–",
        figure(cell.bar.bar, "score") if cell.bar else "–",
        f"{len(cell.scores)}/{len(cell.wanted)}",
        cell.verdict,
    )
    return "| " + " | ".join(map(plain, cells)) + " |"


def plain(text: str) -> str:
    """Text without a meaning in Markdown or HTML, on one line of at most 300 characters.

    >>> plain("a|b <img> [x](y)\\n@all")
    'a\\\\|b &lt;img&gt; \\\\[x\\\\](y) @\u200ball'
    """
    line = " ".join(text.split())[:300]
    escaped = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # a zero-width space after @ keeps a name from becoming a mention
    return re.sub(r"([\\\\`*_\[\]|~#!])", r"\\\1", escaped).replace("@", "@\u200b")
