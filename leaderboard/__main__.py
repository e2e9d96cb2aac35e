"""``python -m leaderboard build | add | check | summary | serve``"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from leaderboard.load import RESULTS, Refusal, load
from selectivbench.errors import SelectivError

FINE, REFUSED, MISUSED = 0, 1, 2
"""Exit codes: all used, some records refused (the rest is done), nothing done."""
MOST_LINES = 50


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code says whether every record was usable."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except (SelectivError, OSError) as error:
        print(f"leaderboard: {error}", file=sys.stderr)
        return MISUSED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m leaderboard", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    build = commands.add_parser("build", help="make the site from records")
    build.add_argument(
        "--records", type=Path, nargs="+", default=[RESULTS], help="folders of records"
    )
    build.add_argument("--out", type=Path, default=Path("_site"), help="default: %(default)s")
    build.set_defaults(run=_build)
    add = commands.add_parser(
        "add", help="copy records, their sources and timings into the results"
    )
    add.add_argument("paths", type=Path, nargs="+", metavar="RECORDS", help="files or folders")
    add.add_argument("--results", type=Path, default=RESULTS, help="default: leaderboard/results")
    add.add_argument("--verified", action="store_true", help="set the mark (scoring workflow only)")
    add.add_argument(
        "--audit", type=Path, help="audit.json of `selectivbench audit`, to take in too"
    )
    add.set_defaults(run=_add)
    check = commands.add_parser("check", help="say which records cannot be used, and why")
    check.add_argument("paths", type=Path, nargs="*", default=[RESULTS], metavar="FOLDER")
    check.set_defaults(run=_check)
    summary = commands.add_parser("summary", help="print a Markdown table of records")
    summary.add_argument("paths", type=Path, nargs="*", default=[RESULTS], metavar="FOLDER")
    summary.set_defaults(run=_summary)
    serve = commands.add_parser("serve", help="look at a built site in a browser")
    serve.add_argument("--out", type=Path, default=Path("_site"), help="default: %(default)s")
    serve.add_argument("--port", type=int, default=8000, help="0 takes any; default: %(default)s")
    serve.set_defaults(run=_serve)
    return parser


def _build(options: argparse.Namespace) -> int:
    from leaderboard.render import build

    report = build(options.records, options.out)
    code = _tell(report.refused)
    print(
        f"{report.records} records, {report.entries} entries, {len(report.written)} files written"
    )
    print(report.index.resolve())
    return code


def _add(options: argparse.Namespace) -> int:
    from leaderboard.audits import take_in
    from leaderboard.store import add

    added = add(options.paths, options.results, options.verified)
    if options.audit is not None:
        print(f"{take_in(options.audit, options.results)} gaps of an audit taken in")
    for stem in added.new:
        print(f"added {stem}")
    timings = f", {len(added.timings)} timings added" if added.timings else ""
    print(
        f"{len(added.new)} added, {len(added.same)} there already, "
        f"{len(added.refused)} refused{timings}"
    )
    return _tell(added.refused)


def _check(options: argparse.Namespace) -> int:
    loaded = load(options.paths)
    missing = {c.record.identity.source_sha256 for c in loaded.cases}
    unstored = [Refusal(f"sources/{sha}.py", "no such source is stored, or its sha differs")
                for sha in sorted(missing) if loaded.source(sha) is None]  # fmt: skip
    code = _tell([*loaded.refused, *unstored])
    print(
        f"{len(loaded.cases)} usable, {len(loaded.refused)} refused, {len(unstored)} without source"
    )
    return code


def _summary(options: argparse.Namespace) -> int:
    from leaderboard.summary import markdown

    loaded = load(options.paths)
    print(markdown(loaded), end="")
    return FINE


def _serve(options: argparse.Namespace) -> int:
    from leaderboard.serve import server

    with server(options.out, options.port) as running:
        print(f"http://127.0.0.1:{running.server_address[1]}/ (Ctrl-C ends it)", flush=True)
        try:
            running.serve_forever()
        except KeyboardInterrupt:
            return FINE
    return FINE


def _tell(refused: Iterable[Refusal]) -> int:
    lines = [f"refused {r.file}: {r.reason}" for r in refused]
    for line in lines[:MOST_LINES]:
        print(line, file=sys.stderr)
    if len(lines) > MOST_LINES:
        print(f"refused {len(lines) - MOST_LINES} more; results.json lists all", file=sys.stderr)
    return REFUSED if lines else FINE


if __name__ == "__main__":
    sys.exit(main())
