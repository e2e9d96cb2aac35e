"""From folders of records to the pages of the site."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from jinja2 import Environment

from leaderboard import (
    badges,
    compare,
    feed,
    figures,
    pages,
    schema,
    source_code,
    tables,
    timing_page,
)
from leaderboard.figures import Chart
from leaderboard.likeness import Near, likenesses
from leaderboard.load import BarOf, Case, Loaded, Refusal, load
from leaderboard.output import Files, Output, digest
from leaderboard.rank import Standing, standings
from leaderboard.view import HERE, environment
from selectivbench.thresholds import bar_for

FILES = (
    ("results.json", "standings, records and refused files; described by results.schema.json"),
    ("results.csv", "one row a record"),
    ("results.parquet", "the same, typed"),
    ("results.schema.json", "JSON Schema of results.json"),
    ("feed.xml", "Atom feed of changes"),
)


@dataclass(frozen=True)
class Report:
    """What a build did: the page to open, how much was written, what was refused."""

    index: Path
    records: int
    entries: int
    written: tuple[str, ...]
    refused: tuple[Refusal, ...]


def build(records: Sequence[Path], out: Path, bars: BarOf = bar_for) -> Report:
    """Build the whole site from the records under some folders; only changed pages are rendered."""
    loaded = load(records, bars)
    output = Output(out, _salt())
    ranked = standings(loaded.cases, bars, loaded.audits)
    site = Site(loaded, ranked, output, environment())
    site.write()
    output.finish()
    entries = {c.record.identity.entry for c in loaded.cases}
    written = tuple(output.written)
    return Report(out / "index.html", len(loaded.cases), len(entries), written, loaded.refused)


def _salt() -> str:
    """Changes whenever the code, a template or a library that draws the pages does."""
    files = sorted(p for s in ("*.py", "templates/*", "static/*", "*.json") for p in HERE.glob(s))
    texts = [f"{p.relative_to(HERE)}\n{p.read_text(encoding='utf-8')}" for p in files]
    return digest(version("jinja2"), version("pygments"), *texts)


class Site:
    """One build: what all pages share, and one method for each kind of page."""

    def __init__(
        self, loaded: Loaded, ranked: tuple[Standing, ...], output: Output, env: Environment
    ) -> None:
        self.loaded, self.ranked, self.output, self.env = loaded, ranked, output, env
        self.by_entry: dict[str, list[Standing]] = defaultdict(list)
        for standing in ranked:
            self.by_entry[standing.entry.id].append(standing)
        self.timings = timing_page.by_entry(loaded.timings)
        self.state = digest(
            *(f"{c.path.stem} {c.sha} {c.record.status}" for c in loaded.cases),
            *_bars(ranked),
            repr(loaded.refused),
            repr(loaded.audits),
            *(timing.to_json() for timing in loaded.timings),
        )

    def write(self) -> None:
        """Every file of the site."""
        for path in sorted((HERE / "static").iterdir()):
            self.output.write(f"static/{path.name}", "", path.read_bytes)
        self.output.group("index", self.state, self._index)
        self._tasks()
        self._entries()
        self.output.group("timing", self.state, self._timing)
        self._sources()
        self._data()

    def _render(self, path: str, template: str, context: pages.Context) -> str:
        shared = {"root": "../" * path.count("/"), "here": ""}
        return self.env.get_template(template).render({**shared, **context})

    def _index(self) -> Files:
        newest = max((c.moment for c in self.loaded.cases), default="")
        charts = figures.overview(self.ranked)
        extra = {"charts": charts, "refused": self.loaded.refused, "newest": newest}
        context = {**pages.index(self.ranked), **extra, "here": "index"}
        return {"index.html": self._render("index.html", "index.html", context), **_saved(charts)}

    def _tasks(self) -> None:
        every = pages.tasks(self.ranked)
        path = "tasks/index.html"
        listed = {"tasks": every, "here": "tasks"}
        self.output.write(path, self.state, lambda: self._render(path, "tasks.html", listed))
        for task in every:
            make = _late(self._task, task["id"])
            self.output.group(f"task {task['id']}", self.state, make)

    def _task(self, name: str) -> Files:
        context = pages.task(name, self.ranked)
        path = f"tasks/{name}.html"
        charts = [chart for part in context["parts"] for chart in part["charts"]]
        return {path: self._render(path, "task.html", context), **_saved(charts)}

    def _timing(self) -> Files:
        context = timing_page.page(self.ranked, self.loaded.timings)
        saved = _saved([chart for part in context["parts"] for chart in part["charts"]])
        return {"timing.html": self._render("timing.html", "timing.html", context), **saved}

    def _entries(self) -> None:
        by_entry: dict[str, list[Case]] = defaultdict(list)
        for case in self.loaded.cases:
            by_entry[case.record.identity.entry].append(case)
        alike = likenesses(self._newest_sources())
        for entry, mine in sorted(self.by_entry.items()):
            cases, near = by_entry[entry], alike.get(entry, ())
            places = (repr((s.rank, s.overall, s.gaps)) for s in mine)
            own = [timing.to_json() for timing in self.timings.get(entry, ())]
            inputs = digest(*places, repr(near), *_bars(mine), *(c.sha for c in cases), *own)
            make = _late(self._entry, entry, mine, cases, near)
            self.output.group(f"entry {entry}", inputs, make)

    def _newest_sources(self) -> dict[str, str]:
        found = {e: self.loaded.source(pages.newest_source(s)) for e, s in self.by_entry.items()}
        return {entry: text for entry, text in found.items() if text is not None}

    def _entry(
        self, entry: str, mine: Sequence[Standing], cases: Sequence[Case], near: Near
    ) -> Files:
        context = pages.entry(mine, cases, self.timings.get(entry, ()))
        context["near"] = near
        for row in context["history"]:
            row["stored"] = self.loaded.source(row["source"]) is not None
        text = self.loaded.source(pages.newest_source(mine))
        context["source"] = None if text is None else source_code.html(text)
        path = f"entries/{entry}.html"
        files = {path: self._render(path, "entry.html", context)}
        saved = _saved([chart for part in context["parts"] for chart in part["charts"]])
        return {**files, f"badges/{entry}.svg": badges.badge(mine), **saved}

    def _sources(self) -> None:
        users: dict[str, set[str]] = defaultdict(set)
        for case in self.loaded.cases:
            users[case.record.identity.source_sha256].add(case.record.identity.entry)
        for sha, entries in sorted(users.items()):
            text = self.loaded.source(sha)
            if text is not None:
                inputs = digest(sha, *sorted(entries))
                make = _late(self._source, sha, text, sorted(entries))
                self.output.group(f"source {sha}", inputs, make)

    def _source(self, sha: str, text: str, entries: Sequence[str]) -> Files:
        context = {"sha": sha, "source": source_code.html(text), "entries": entries}
        path = f"sources/{sha}.html"
        return {f"sources/{sha}.py": text, path: self._render(path, "source.html", context)}

    def _data(self) -> None:
        cases, write = self.loaded.cases, self.output.write
        refused = self.loaded.refused
        write("results.json", self.state, lambda: tables.to_json(self.ranked, cases, refused))
        write("results.csv", self.state, lambda: tables.records_csv(cases))
        write("feed.xml", self.state, lambda: feed.atom(self.ranked, cases))
        write("results.schema.json", "", schema.json_schema)
        if schema.has_parquet():
            write("results.parquet", self.state, lambda: schema.parquet(cases))
        page = "compare.html"
        write(page, self.state, lambda: self._render(page, page, compare.context(self.ranked)))
        context = {
            "here": "data",
            "records": len(cases),
            "files": [f for f in FILES if schema.has_parquet() or f[0] != "results.parquet"],
            "columns": tables.RECORD_COLUMNS,
            "badges": sorted(self.by_entry),
        }
        write("data.html", self.state, lambda: self._render("data.html", "data.html", context))


def _saved(charts: Iterable[Chart]) -> Files:
    files: dict[str, str | bytes] = {}
    for chart in charts:
        files[f"{chart.path}.svg"] = chart.drawn.alone()
        files[f"{chart.path}.csv"] = chart.csv
    return files


def _late(make: Callable[..., Files], *args: object) -> Callable[[], Files]:
    """The call, for later; a lambda in a loop would see the loop's last values."""
    return lambda: make(*args)


def _bars(ranked: Iterable[Standing]) -> list[str]:
    return [repr(cell.bar) for s in ranked for cell in s.cells.values()]
