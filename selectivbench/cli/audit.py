"""``selectivbench audit``: the same training on seeds that nobody could know."""

from __future__ import annotations

import argparse
from pathlib import Path

from selectivbench import audit
from selectivbench.cli.commands import Commands
from selectivbench.sandbox import levels


def add(commands: Commands) -> None:
    """Register ``audit``."""
    parser = commands.add_parser("audit", help="run on secret seeds and compare")
    salt = parser.add_mutually_exclusive_group(required=True)
    salt.add_argument("--salt-file", type=Path, help="the secret salt")
    salt.add_argument("--new-salt", type=Path, help="write one, and print what to publish")
    option = parser.add_argument
    option("models", nargs="*", type=Path, metavar="mine.py", help="none: only the commitment")
    option("--tasks", default="", help="task names with commas (default: the profile's own)")
    option("--profile", default="lite")
    option("--records", type=Path, default=Path(".selectivbench/records"), help="the public ones")
    option(
        "--out",
        type=Path,
        default=Path(".selectivbench/audit"),
        help="keep it as secret as the salt",
    )
    option("--isolate", default=levels.HIGHEST, help="0 to 3, or highest")
    option("--steps", type=int, help="cut the training budget")
    parser.set_defaults(run=_audit)


def _audit(arguments: argparse.Namespace) -> str:
    if arguments.new_salt:
        return audit.new_salt(arguments.new_salt)
    salt = audit.read_salt(arguments.salt_file)
    if not arguments.models:
        return f"commitment {audit.commitment(salt)}"
    wanted = audit.Audit(
        salt=salt,
        models=tuple(arguments.models),
        tasks=tuple(filter(None, arguments.tasks.split(","))),
        profile=arguments.profile,
        records=arguments.records,
        out=arguments.out,
        isolate=arguments.isolate,
        steps=arguments.steps,
    )
    return audit.perform(wanted)
