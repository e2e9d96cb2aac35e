"""``selectivbench plot``: figures of records, for a paper."""

from __future__ import annotations

import argparse
from pathlib import Path

from selectivbench.cli.commands import Commands


def add(commands: Commands) -> None:
    """Register ``plot``."""
    parser = commands.add_parser("plot", help="draw figures of records, with their numbers as CSV")
    option = parser.add_argument
    option("records", nargs="+", type=Path, metavar="RECORDS", help="files, or folders of them")
    option("--kind", required=True, help="curve, difficulty, extrapolation, pareto or lr")
    option("--out", type=Path, default=Path("figures"), help="a folder (default: figures)")
    option("--format", default="svg", help="svg, pdf, png, or several with commas (default: svg)")
    option("--tasks", default="", help="only these, with commas (default: all)")
    option("--entries", default="", help="only these, with commas (default: all)")
    option("--cost", default="state", help="of pareto: state, parameters or seconds")
    option("--width", type=float, default=6.75, help="inches; a column has 3.25 (default: 6.75)")
    option("--font-size", type=float, default=8.0, help="points on paper (default: 8)")
    parser.set_defaults(run=_plot)


def _plot(given: argparse.Namespace) -> str:
    from selectivbench.figures.page import Look
    from selectivbench.figures.plotting import Asked, plot

    asked = Asked(
        paths=tuple(given.records),
        kind=given.kind,
        out=given.out,
        formats=given.format,
        cost=given.cost,
        tasks=tuple(filter(None, given.tasks.split(","))),
        entries=tuple(filter(None, given.entries.split(","))),
        look=Look(given.width, given.font_size),
    )
    return "\n".join(map(str, plot(asked)))
