"""``selectivbench``: argument parsing only; each command is a function of the room it belongs to."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from selectivbench import __version__, catalogue, template
from selectivbench.cli import (
    anatomy,
    audit,
    data,
    evidence,
    lr_curve,
    overhead,
    plot,
    probe,
    sweep,
    train,
    watch,
)
from selectivbench.errors import SelectivError

FAMILIES = (
    data,
    train,
    watch,
    lr_curve,
    sweep,
    probe,
    audit,
    evidence,
    overhead,
    plot,
    anatomy,
)
"""One file for each family of commands; its ``add`` registers them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; a bad argument is one sentence and exit code 2."""
    arguments = _parser().parse_args(argv)
    try:
        print(arguments.run(arguments))
    except SelectivError as error:
        print(f"selectivbench: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="selectivbench", description=__doc__)
    parser.add_argument("--version", action="version", version=f"selectivbench {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    tasks = commands.add_parser("tasks", help="list tasks, sizes and expected minutes")
    tasks.set_defaults(run=lambda _: catalogue.table())
    new = commands.add_parser("new", help="write a submission that runs, to start from")
    new.add_argument("path", type=Path, metavar="mine.py")
    new.set_defaults(run=lambda arguments: template.write(arguments.path))
    for family in FAMILIES:
        family.add(commands)
    return parser
