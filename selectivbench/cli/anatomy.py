"""``selectivbench anatomy``: which elements were right, for records that do not say."""

from __future__ import annotations

import argparse
from pathlib import Path

from selectivbench.cli.commands import Commands


def add(commands: Commands) -> None:
    """Register ``anatomy``."""
    about = "add to records which elements were right, from their saved models"
    parser = commands.add_parser("anatomy", help=about)
    option = parser.add_argument
    option("records", nargs="+", type=Path, metavar="RECORDS", help="files, or folders of them")
    option("--models", type=Path, required=True, help="a folder of saved models")
    option("--isolate", default="1", help="0 to 3, or highest (default: 1)")
    parser.set_defaults(run=_anatomy)


def _anatomy(given: argparse.Namespace) -> str:
    from selectivbench import reexamine

    return reexamine.perform(given.records, given.models, given.isolate)
