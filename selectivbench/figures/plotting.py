"""``selectivbench plot``: records in, files out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from selectivbench.errors import RecordError, UsageError, explain, near
from selectivbench.figures import costs, series
from selectivbench.figures.lines import draw_lines, draw_scatter
from selectivbench.figures.page import Drawn, Look, checked_formats
from selectivbench.record import Record

LINES: Mapping[str, Callable[[Sequence[Record]], series.Plot]] = MappingProxyType(
    {
        "curve": series.curve,
        "difficulty": series.difficulty,
        "extrapolation": series.extrapolation,
        "lr": series.rates,
    }
)
KINDS = (*LINES, "pareto")


@dataclass(frozen=True)
class Asked:
    """One call. paths: record files, or folders of them; tasks, entries: only these, () for all."""

    paths: tuple[Path, ...]
    kind: str
    out: Path
    formats: str = "svg"
    cost: str = "state"
    tasks: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    look: Look = field(default_factory=Look)


def plot(asked: Asked) -> list[Path]:
    """Draw one kind of figure of the records and write it; the files."""
    formats = checked_formats(asked.formats)
    if asked.kind not in KINDS:
        raise UsageError(explain("kind of figure", asked.kind, near(asked.kind, KINDS)))
    if asked.cost not in costs.COSTS:
        raise UsageError(explain("cost", asked.cost, near(asked.cost, costs.COSTS)))
    records = chosen(read(asked.paths), asked.tasks, asked.entries)
    return _drawn(asked, records).save(asked.out, asked.kind, formats)


def _drawn(asked: Asked, records: Sequence[Record]) -> Drawn:
    if asked.kind == "pareto":
        scatter = costs.pareto(records, costs.COSTS[asked.cost])
        return draw_scatter(scatter, asked.look)
    return draw_lines(LINES[asked.kind](records), asked.look)


def read(paths: Iterable[Path]) -> list[Record]:
    """The records of files and folders, by file name; one that cannot be read is a UsageError."""
    files = [file for path in paths for file in _files(path)]
    records = []
    for file in sorted(files, key=lambda path: path.name):
        try:
            records.append(Record.from_json(file.read_text(encoding="utf-8")))
        except (RecordError, OSError, UnicodeDecodeError) as error:
            raise UsageError(explain("record", str(file), f"a record's file ({error})")) from error
    return records


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return [file for file in path.glob("*.json") if file.name != "manifest.json"]
    return [path]


def chosen(records: Sequence[Record], tasks: Sequence[str], entries: Sequence[str]) -> list[Record]:
    """The records of some tasks and entries, all where none is named; a name must occur."""
    known = {r.identity.task.rpartition("-v")[0] for r in records}
    who = {r.identity.entry for r in records}
    for what, named, there in (("task", tasks, known), ("entry", entries, who)):
        for name in named:
            if name not in there:
                raise UsageError(explain(what, name, near(name, there) or "one with records"))
    return [
        r
        for r in records
        if (not tasks or r.identity.task.rpartition("-v")[0] in tasks)
        and (not entries or r.identity.entry in entries)
    ]
