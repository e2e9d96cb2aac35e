"""What the commands of ``selectivbench sweep`` do; each gives the text to print."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from selectivbench import atomic
from selectivbench.errors import SelectivError, UsageError, explain
from selectivbench.record import REUSED, Record
from selectivbench.sweep import file, results, tables, wandb_export
from selectivbench.sweep.agent import tell_agent
from selectivbench.sweep.changes import described, refuse_changes
from selectivbench.sweep.drive import RETRIES, Tally, drive
from selectivbench.sweep.engines import Wish, opened
from selectivbench.sweep.file import Sweep
from selectivbench.sweep.folder import Folder
from selectivbench.sweep.grid import count
from selectivbench.sweep.load import Loads
from selectivbench.sweep.one import find_cell
from selectivbench.sweep.runs import Ground, run_of, runs
from selectivbench.sweep.work import Work, execute

HOME = Path(".selectivbench/sweeps")
"""Folders of sweeps, named after their files."""
MANY = 1_000_000
"""Cells above which a sweep asks whether it is meant."""
SORTED = 100_000
"""Cells up to which all are made at once, to be sorted."""
SHOWN = 5
"""Failures that ``status`` names."""
TELL_EVERY = 10.0
"""Seconds between two lines of progress."""


@dataclass(frozen=True)
class Orders:
    """How a sweep is to be run.

    out: its folder, by default ``.selectivbench/sweeps/NAME``. again: it may have been
    begun. changed: its file may differ from what it was then. many: a million cells are meant.
    """

    path: Path
    out: Path | None = None
    wish: Wish = field(default_factory=Wish)
    device: str = "auto"
    isolate: str = "1"
    retries: int = RETRIES
    again: bool = False
    changed: bool = False
    many: bool = False


def run(orders: Orders) -> str:
    """Run a sweep, or what is left of it. SelectivError where a cell failed, or on Ctrl-C."""
    sweep = file.read(orders.path)
    total = count(sweep)
    if total > MANY and not orders.many:
        raise UsageError(explain("cells", f"{total:,}", f"{MANY:,}", "or --yes if they are meant"))
    if sweep.save and not orders.wish.shared:
        remedy = "only records come back from nodes that do not see the folder"
        raise UsageError(explain("--return-records", "a sweep with save = true", "none", remedy))
    ground = ground_of(sweep, orders.out, orders.device, orders.isolate)
    folder = Folder(ground.root)
    _begin(sweep, folder, orders)
    done = {key for key, status in folder.known().items() if status in REUSED}
    todo = _without(runs_of(sweep, ground), done)
    command = f"selectivbench sweep resume {orders.path}"
    try:
        with opened(orders.wish, ground.root) as engine:
            tally = drive(todo, engine, folder, orders.retries, _Teller(total, len(done)))
    except KeyboardInterrupt:
        raise SelectivError(f"interrupted; `{command}` goes on from here.") from None
    if tally.failed:
        raise SelectivError(
            f"{tally.failed:,} of {total:,} cells failed; `selectivbench sweep status "
            f"{orders.path}` says why, `{command}` tries them again."
        )
    return f"{total:,} cells done in {ground.root}; {tally.done:,} of them now."


def ground_of(sweep: Sweep, out: Path | None, device: str = "auto", isolate: str = "1") -> Ground:
    """The folder of a sweep, and of the one whose trained models it reuses: they are neighbours."""
    root = out or HOME / sweep.name
    reused = root.parent / sweep.reuse.stem if sweep.reuse else None
    return Ground(root, reused, device, isolate)


def runs_of(sweep: Sweep, ground: Ground) -> Iterator[Work]:
    """The work of every cell; longest first, so that no long one is left alone at the end."""
    found = (work for _, work in runs(sweep, ground))
    if count(sweep) > SORTED:
        return found
    loads = Loads()
    return iter(sorted(found, key=lambda work: -loads.of(work).weight))


def status(path: Path, out: Path | None) -> str:
    """How far a sweep has come, how long the rest takes at its pace, and what failed."""
    sweep = file.read(path)
    ground = ground_of(sweep, out)
    folder = _begun(ground.root, path)
    known = folder.known()
    done = sum(status in REUSED for status in known.values())
    failed = {key: status for key, status in known.items() if status not in REUSED}
    left = max(0, count(sweep) - done - len(failed))
    driven = "a driver is at work" if folder.is_driven() else "no driver is at work"
    lines = [
        f"{sweep.name}: {done:,} of {count(sweep):,} done, {len(failed):,} failed, "
        f"{folder.running():,} begun, {left:,} left; {driven}"
    ]
    pace = _pace(folder)
    if pace and left:
        lines.append(
            f"at {3600 / pace:,.0f} cells an hour, the rest takes {pace * left / 3600:.1f} h"
        )
    lines += _failures(sweep, ground, folder, dict(list(failed.items())[:SHOWN]))
    return "\n".join(lines)


def summary(path: Path, out: Path | None, plot: bool = False) -> str:
    """Write ``results.csv`` and ``plateau.csv``, mark the records that were chosen, print tables.

    plot: draw the plateaus too, as ``plateaus.svg`` (extra ``figures``).
    """
    sweep = file.read(path)
    ground = ground_of(sweep, out)
    folder = _begun(ground.root, path)
    found = list(results.rows(sweep, ground))
    groups = results.groups_of(found, sweep.choice)
    results.mark(found, groups, sweep.choice, folder)
    chosen = results.chosen_keys(found, groups, sweep.choice)
    flat = results.plateaus(groups)
    written = {"results.csv": results.to_csv(found, sweep, chosen)}
    written |= {"plateau.csv": tables.plateau_csv(flat)} if flat else {}
    for name, text in written.items():
        atomic.write(ground.root / name, text.encode())
    names = [str(ground.root / name) for name in written]
    if plot and flat:
        from selectivbench.sweep.pictures import draw_plateaus

        names += map(str, draw_plateaus(flat, sweep, ground.root))
    parts = [tables.best_table(results.best_of_values(found, groups, sweep))]
    parts += [tables.plateau_table(flat)] if flat else []
    parts += [f"written: {', '.join(names)}"]
    return "\n\n".join(parts)


def one_cell(path: Path, out: Path | None, device: str, words: Sequence[str]) -> str:
    """Run the cell that the words name, here, into the sweep's folder; what a W&B agent calls."""
    sweep = file.read(path)
    ground = ground_of(sweep, out, device)
    folder = Folder(ground.root)
    folder.prepare(described(sweep))
    cell = find_cell(sweep, words)
    report = execute(run_of(cell, sweep, ground), str(ground.root))
    if (text := folder.read(report.key)) is not None:
        tell_agent(Record.from_json(text), sweep.choice.by, ground.root)
    if not report.done:
        raise SelectivError(f"{cell}: {report.status}: {report.cause or folder.path(report.key)}")
    return f"{cell}: {report.status}, {folder.path(report.key)}"


def export_wandb(path: Path, out: Path | None) -> str:
    """The YAML of a sweep, for ``wandb sweep``."""
    sweep = file.read(path)
    return wandb_export.to_yaml(sweep, ground_of(sweep, out).root).rstrip()


def _begin(sweep: Sweep, folder: Folder, orders: Orders) -> None:
    before = folder.asked()
    if before is not None and not orders.again:
        remedy = f"`selectivbench sweep resume {orders.path}`, or another --out"
        raise UsageError(explain("sweep folder", f"{folder.root}, begun", "a new one", remedy))
    if before is not None and not orders.changed:
        refuse_changes(sweep, before)
    folder.prepare(described(sweep))


def _begun(root: Path, path: Path) -> Folder:
    folder = Folder(root)
    if folder.asked() is None:
        remedy = f"`selectivbench sweep run {path}`"
        raise UsageError(explain("sweep folder", str(root), "one that was begun", remedy))
    return folder


def _without(todo: Iterator[Work], done: set[str]) -> Iterator[Work]:
    """What is not done; a point that was drawn twice is run once."""
    seen = set(done)
    for work in todo:
        if work.key not in seen:
            seen.add(work.key)
            yield work


def _failures(sweep: Sweep, ground: Ground, folder: Folder, failed: Mapping[str, str]) -> list[str]:
    """A line for each: which cell, how it ended, and why."""
    causes = {line["key"]: line.get("cause", "") for line in folder.lines()}
    return [
        f"{cell}: {failed[work.key]}: {causes.get(work.key) or folder.path(work.key)}"
        for cell, work in (runs(sweep, ground) if failed else ())
        if work.key in failed
    ]


def _pace(folder: Folder) -> float | None:
    """Seconds from one finished cell to the next, over the last hundred."""
    ends = [line["at"] for line in folder.lines() if line["status"] in REUSED][-100:]
    if len(ends) < 2:
        return None
    first, last = (datetime.fromisoformat(end) for end in (ends[0], ends[-1]))
    return (last - first).total_seconds() / (len(ends) - 1)


class _Teller:
    """A line on stderr every few seconds."""

    def __init__(
        self, total: int, before: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.total, self.before, self.clock = total, before, clock
        self.told = clock()

    def __call__(self, tally: Tally) -> None:
        if self.clock() - self.told < TELL_EVERY:
            return
        self.told = self.clock()
        done, minutes = self.before + tally.done, tally.seconds / 60
        print(
            f"{done:,} of {self.total:,} done, {tally.failed:,} failed, {tally.lost:,} lost, "
            f"{tally.done / minutes:.1f} a minute",
            file=sys.stderr,
        )
