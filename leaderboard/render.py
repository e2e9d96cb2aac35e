"""From folders of records to the pages of the site."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment

from leaderboard import badges, feed, pages, source_code, tables
from leaderboard.load import BarOf, Case, Loaded, Refusal, load
from leaderboard.output import Output, digest
from leaderboard.rank import Standing, standings
from leaderboard.view import HERE, environment
from selectivbench.thresholds import bar_for

FILES = (
    ("results.json", "standings, records and refused files; described by results.schema.json"),
    ("results.csv", "one row a record"),
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
    site = _Site(loaded, standings(loaded.cases, bars), Output(out, _salt()), environment())
    site.write()
    site.output.finish()
    return Report(
        out / "index.html",
        len(loaded.cases),
        len({c.record.identity.entry for c in loaded.cases}),
        tuple(site.output.written),
        loaded.refused,
    )


def _salt() -> str:
    """Changes whenever the code, a template or a library that draws the pages does."""
    files = sorted(p for s in ("*.py", "templates/*", "static/*", "*.json") for p in HERE.glob(s))
    texts = [f"{p.relative_to(HERE)}\n{p.read_text(encoding='utf-8')}" for p in files]
    return digest(version("jinja2"), version("pygments"), *texts)


class _Site:
    """One build: what all pages share, and one method for each kind of page."""

    def __init__(
        self, loaded: Loaded, ranked: tuple[Standing, ...], output: Output, env: Environment
    ) -> None:
        self.loaded, self.ranked, self.output, self.env = loaded, ranked, output, env
        self.state = digest(
            *(f"{c.path.stem} {c.sha} {c.record.status}" for c in loaded.cases),
            *(repr(bar) for bar in _bars(ranked)),
            repr(loaded.refused),
        )

    def write(self) -> None:
        self._static()
        self._index()
        self._tasks()
        self._entries()
        self._sources()
        self._data()

    def _page(self, path: str, template: str, inputs: str, make: Any) -> None:
        """Render a page whose context ``make`` gives, if its inputs have changed."""
        root = "../" * path.count("/")

        def render() -> str:
            shared = {"root": root, "here": ""}
            return self.env.get_template(template).render({**shared, **make()})

        self.output.write(path, inputs, render)

    def _static(self) -> None:
        for path in sorted((HERE / "static").iterdir()):
            self.output.write(f"static/{path.name}", "", path.read_bytes)

    def _index(self) -> None:
        newest = max((c.moment for c in self.loaded.cases), default="")
        extra = {"here": "index", "charts": [], "refused": self.loaded.refused, "newest": newest}
        self._page(
            "index.html", "index.html", self.state, lambda: {**pages.index(self.ranked), **extra}
        )

    def _tasks(self) -> None:
        every = pages.tasks(self.ranked)
        self._page(
            "tasks/index.html", "tasks.html", self.state, lambda: {"tasks": every, "here": "tasks"}
        )
        for task in every:
            name = task["id"]
            make = _late(pages.task, name, self.ranked)
            self._page(f"tasks/{name}.html", "task.html", self.state, make)

    def _entries(self) -> None:
        by_entry: dict[str, list[Case]] = defaultdict(list)
        for case in self.loaded.cases:
            by_entry[case.record.identity.entry].append(case)
        for entry, mine in _by_entry(self.ranked).items():
            cases = by_entry[entry]
            places = (repr((s.rank, s.overall)) for s in mine)
            bars = (repr(bar) for bar in _bars(mine))
            inputs = digest(*places, *bars, *(c.sha for c in cases))
            self.output.write(f"badges/{entry}.svg", inputs, _late(badges.badge, mine))
            self._page(
                f"entries/{entry}.html", "entry.html", inputs, _late(self._entry, mine, cases)
            )

    def _entry(self, mine: Sequence[Standing], cases: Sequence[Case]) -> pages.Context:
        context = pages.entry(mine, cases)
        for row in context["history"]:
            row["stored"] = self.loaded.source(row["source"]) is not None
        text = self.loaded.source(pages.newest_source(mine))
        return {**context, "source": None if text is None else source_code.html(text)}

    def _sources(self) -> None:
        users: dict[str, set[str]] = defaultdict(set)
        for case in self.loaded.cases:
            users[case.record.identity.source_sha256].add(case.record.identity.entry)
        for sha, entries in sorted(users.items()):
            text = self.loaded.source(sha)
            if text is not None:
                self._source(sha, text, sorted(entries))

    def _source(self, sha: str, text: str, entries: Sequence[str]) -> None:
        self.output.write(f"sources/{sha}.py", sha, text.encode)
        make = _late(_source_context, sha, text, entries)
        self._page(f"sources/{sha}.html", "source.html", digest(sha, *entries), make)

    def _data(self) -> None:
        cases = self.loaded.cases
        write = self.output.write
        write(
            "results.json",
            self.state,
            lambda: tables.to_json(self.ranked, cases, self.loaded.refused),
        )
        write("results.csv", self.state, lambda: tables.records_csv(cases))
        write("feed.xml", self.state, lambda: feed.atom(self.ranked, cases))
        context = {
            "here": "data",
            "records": len(cases),
            "files": FILES,
            "columns": tables.RECORD_COLUMNS,
            "badges": list(_by_entry(self.ranked)),
        }
        self._page("data.html", "data.html", self.state, lambda: context)


def _late(make: Any, *args: Any) -> Any:
    """The call, for later; a lambda in a loop would see the loop's last values."""
    return lambda: make(*args)


def _source_context(sha: str, text: str, entries: Sequence[str]) -> pages.Context:
    return {"sha": sha, "source": source_code.html(text), "entries": entries}


def _bars(ranked: Iterable[Standing]) -> list[object]:
    return [cell.bar for s in ranked for cell in s.cells.values()]


def _by_entry(ranked: Iterable[Standing]) -> dict[str, list[Standing]]:
    found: dict[str, list[Standing]] = defaultdict(list)
    for standing in ranked:
        found[standing.entry.id].append(standing)
    return dict(sorted(found.items()))
