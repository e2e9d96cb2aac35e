"""``overhead``: what the harness costs beside a loop written by hand."""

from __future__ import annotations

import argparse
from pathlib import Path

from selectivbench.cli.commands import Commands


def add(commands: Commands) -> None:
    """Register the command."""
    parser = commands.add_parser("overhead", help="compare the harness with a bare training loop")
    parser.add_argument("path", type=Path, metavar="mine.py")
    parser.add_argument("--task", default="noisy_gaps", help="a name of `selectivbench tasks`")
    parser.add_argument("--profile", default="lite", help="smoke, lite or paper (default: lite)")
    parser.add_argument("--steps", type=int, default=150, help="of each training (default: 150)")
    parser.add_argument("--pairs", type=int, default=7, help="default: 7")
    parser.set_defaults(run=_overhead)


def _overhead(given: argparse.Namespace) -> str:
    from selectivbench import overhead

    return overhead.table(
        overhead.Comparison(given.path, given.task, given.profile, given.steps, given.pairs)
    )
