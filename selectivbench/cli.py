"""``selectivbench``: argument parsing only; each command is a function of the room it belongs to."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from selectivbench import __version__, audit, catalogue, template
from selectivbench.errors import SelectivError
from selectivbench.sandbox import levels


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
    _add_audit(commands.add_parser("audit", help="run on secret seeds and compare"))
    return parser


def _add_audit(parser: argparse.ArgumentParser) -> None:
    salt = parser.add_mutually_exclusive_group(required=True)
    salt.add_argument("--salt-file", type=Path, help="the secret salt")
    salt.add_argument("--new-salt", type=Path, help="write one, and print what to publish")
    add = parser.add_argument
    add("models", nargs="*", type=Path, metavar="mine.py", help="none: only the commitment")
    add("--tasks", default="", help="task names with commas (default: the profile's own)")
    add("--profile", default="lite")
    add("--records", type=Path, default=Path(".selectivbench/records"), help="the public ones")
    add(
        "--out",
        type=Path,
        default=Path(".selectivbench/audit"),
        help="keep it as secret as the salt",
    )
    add("--isolate", default=levels.HIGHEST, help="0 to 3, or highest")
    add("--steps", type=int, help="cut the training budget")
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


if __name__ == "__main__":
    sys.exit(main())
