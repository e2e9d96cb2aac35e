"""``selectivbench watch``: how far the trainings of a run are."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from selectivbench.cli.commands import Commands
from selectivbench.watch import watch

RECORDS = Path(".selectivbench/records")


def add(commands: Commands) -> None:
    """Register ``watch``."""
    parser = commands.add_parser("watch", help="follow the trainings of a run, live")
    text = f"the records folder (default: {RECORDS})"
    parser.add_argument("records", nargs="?", type=Path, default=RECORDS, metavar="DIR", help=text)
    parser.add_argument("--once", action="store_true", help="print the table once")
    parser.set_defaults(run=_watch)


def _watch(given: argparse.Namespace) -> str:
    return watch(given.records, sys.stdout, given.once)
