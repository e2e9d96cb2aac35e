"""The terminal summary: a table of verdicts, with committed reference rows beside it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from statistics import fmean

from pytest_selectivbench.results import Line
from selectivbench.errors import RecordError
from selectivbench.record import Record, with_variant
from selectivbench.sparkline import sparkline
from selectivbench.tasks.gap_extrapolation import longest_gap
from selectivbench.tracking.marks import Mirrored

REFERENCES = ("lstm", "mamba", "s4d")
HEAD = (
    "entry", "task", "accuracy", "range", "floor", "ceiling", "score", "bar", "z", "verdict", "time"
)  # fmt: skip


def table(lines: Iterable[Line], references: Iterable[Record]) -> list[str]:
    """Lines of text: one a task of an entry, the references' figures under each task."""
    committed = list(references)
    body: list[tuple[str, ...]] = []
    shown: set[tuple[str, str, str]] = set()
    for line in lines:
        body.append(_cells(line))
        profile = line.rows[0].profile
        for entry in REFERENCES:
            key = (entry, line.task, line.variant)
            if entry != line.entry and key not in shown:
                shown.add(key)
                body += _reference(entry, line, profile, committed)
    widths = [max(len(cells[i]) for cells in (HEAD, *body)) for i in range(len(HEAD))]
    return [_join(HEAD, widths), *(_join(cells, widths) for cells in body)]


def reference_records() -> list[Record]:
    """The packaged records of the reference entries; unreadable ones are left out."""
    records = []
    folder = files("leaderboard").joinpath("results")
    for file in sorted(folder.iterdir(), key=lambda f: f.name) if folder.is_dir() else ():
        if file.name.startswith(tuple(f"{entry}-" for entry in REFERENCES)):
            try:
                records.append(Record.from_json(file.read_text(encoding="utf-8")))
            except RecordError:
                continue  # `python -m leaderboard check` is where this is said
    return records


def curves(lines: Iterable[Line]) -> list[str]:
    """The score on each split of a task that has several, and how far a longer gap is held."""
    said = []
    for line in lines:
        if len(line.splits) > 1:
            by_split = ", ".join(f"{name} {figure:.3f}" for name, figure in line.splits.items())
            said.append(f"{line.entry} {line.task}: score on {by_split}{_held(line)}")
    return said


def needed(lines: Iterable[Line]) -> list[str]:
    """How much training each task took to its bar, by the validation scores of each seed."""
    said = []
    for line in lines:
        steps = [row.steps_to_bar for row in line.rows]
        if any(steps):
            name = with_variant(line.task, line.variant)
            by_seed = ", ".join("-" if step is None else str(step) for step in steps)
            said.append(f"{line.entry} {name}: first validation at the bar: step {by_seed}")
    return said


def _held(line: Line) -> str:
    gaps = all(name.startswith("test-gap") for name in line.splits)
    if not gaps or line.bar is None:
        return ""
    return f"; longest gap at the bar: {longest_gap(line.splits, line.bar)}"


def losses(lines: Iterable[Line]) -> list[str]:
    """How the training loss went in each case that failed."""
    return [
        f"{row.entry} {row.task} seed {row.seed}: loss {sparkline(row.losses)} "
        f"{row.losses[0]:.3f} to {row.losses[-1]:.3f}"
        for line in lines
        for row in line.rows
        if row.losses
    ]


def runs(mirrored: Iterable[Mirrored], here: Path) -> list[str]:
    """Where W&B runs are: the projects of those online, and the command that sends the others."""
    found = list(mirrored)
    pages = {run.url.partition("/runs/")[0]: run.project for run in found if run.url}
    offline = [os.path.relpath(run.folder, here) for run in found if run.mode == "offline"]
    said = [f"W&B: project {project} at {page}" for page, project in pages.items()]
    if offline:
        said += [f"W&B: kept offline: {len(offline)}; to send:"]
        said += [f"  wandb sync {shlex.join(offline)}"]
    return said


def reasons(lines: Iterable[Line]) -> list[str]:
    """Why each case was trained or re-used, grouped by the reason."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        for row in line.rows:
            name = f"{row.entry} {row.task} seed {row.seed}"
            grouped.setdefault((row.verb, row.reason), []).append(name)
    return [
        f"{verb} {len(names)} ({reason}): {_some(names)}"
        for (verb, reason), names in sorted(grouped.items(), reverse=True)
    ]


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _cells(line: Line) -> tuple[str, ...]:
    accuracies = [row.accuracy for row in line.rows if row.accuracy is not None]
    spread = f"{min(accuracies):.3f}-{max(accuracies):.3f}" if accuracies else "-"
    return (
        line.entry,
        with_variant(line.task, line.variant),
        _number(line.mean("accuracy")),
        spread,
        _number(line.mean("floor")),
        _number(line.mean("ceiling")),
        _number(line.mean("score")),
        _number(line.bar),
        _number(line.z, 1),
        line.verdict,
        f"{sum(row.seconds for row in line.rows):.1f} s",
    )


def _reference(
    entry: str, line: Line, profile: str, committed: list[Record]
) -> list[tuple[str, ...]]:
    """One row for a reference entry on a line's task, or none where nothing is committed."""
    found = [
        record
        for record in committed
        if (record.identity.entry, record.identity.task) == (entry, line.task)
        and (record.identity.profile, record.identity.variant) == (profile, line.variant)
        and record.accuracy is not None
        and record.score is not None
    ]
    if not found:
        return []
    accuracies = [record.accuracy for record in found if record.accuracy is not None]
    scores = [record.score for record in found if record.score is not None]
    spread = f"{min(accuracies):.3f}-{max(accuracies):.3f}"
    figures = (_number(fmean(accuracies)), spread, "", "", _number(fmean(scores)))
    return [(f"  ({entry})", "", *figures, "", "", "committed", "")]


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _join(cells: Iterable[str], widths: list[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
