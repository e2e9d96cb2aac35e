"""``selectivbench``: argument parsing only; each command is a function of the room it belongs to."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from selectivbench import __version__, audit, catalogue, template, watch
from selectivbench.errors import SelectivError
from selectivbench.sandbox import levels

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


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
    _add_watch(commands.add_parser("watch", help="follow the trainings of a run that goes on"))
    _add_data(commands)
    _add_audit(commands.add_parser("audit", help="run on secret seeds and compare"))
    return parser


def _add_watch(parser: argparse.ArgumentParser) -> None:
    records = Path(".selectivbench/records")
    parser.add_argument("records", nargs="?", type=Path, default=records, metavar="DIR",
                        help=f"the records folder (default: {records})")  # fmt: skip
    parser.add_argument("--once", action="store_true", help="print the table once")
    parser.set_defaults(run=lambda given: watch.watch(given.records, sys.stdout, given.once))


def _add_data(commands: Commands) -> None:
    """``data``: the sequences themselves, without training anything."""
    data = commands.add_parser("data", help="export, show or describe the sequences of a task")
    actions = data.add_subparsers(required=True, metavar="ACTION")
    write = actions.add_parser("export", help="write a split to a file")
    _add_dataset(write)
    write.add_argument("--split", default="train")
    write.add_argument("--format", default="npz", help="npz or parquet (default: npz)")
    write.add_argument("--count", type=int, help="samples (default: all)")
    write.add_argument("--out", required=True, help="the file to write")
    write.set_defaults(run=_export)
    show = actions.add_parser("show", help="draw one sample in the terminal, or as SVG")
    _add_dataset(show)
    show.add_argument("--split", default="test")
    show.add_argument("--index", type=int, default=0)
    show.add_argument("--steps", type=int, default=40, help="steps to draw (default: 40)")
    show.add_argument("--svg", action="store_true", help="print an SVG picture instead of text")
    show.set_defaults(run=_show)
    info = actions.add_parser("info", help="classes, lengths, floor and ceiling, hash, as JSON")
    _add_dataset(info)
    info.set_defaults(run=_info)
    speed = actions.add_parser("speed", help="measure the data engine on this machine")
    speed.add_argument("--share", type=float, default=1.0, help="of the long walks (default: 1)")
    speed.set_defaults(run=_speed)


def _add_dataset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", help="a name of `selectivbench tasks`")
    parser.add_argument("--profile", default="lite", help="smoke, lite or paper (default: lite)")
    parser.add_argument("--variant", help="default: the profile's first")
    parser.add_argument("--seed", type=int, default=1)


def _export(given: argparse.Namespace) -> str:
    from selectivbench import export

    names = (given.task, given.profile, given.variant, given.seed, given.split, given.out)
    return str(export.export(*names, given.format, given.count))


def _show(given: argparse.Namespace) -> str:
    from selectivbench import export

    draw = export.show_svg if given.svg else export.show
    names = (given.task, given.profile, given.variant, given.seed)
    return draw(*names, given.split, given.index, given.steps)


def _info(given: argparse.Namespace) -> str:
    from selectivbench import export

    facts = export.info(given.task, given.profile, given.variant, given.seed)
    return json.dumps(facts, indent=1)


def _speed(given: argparse.Namespace) -> str:
    from selectivbench import speed

    return speed.table(given.share)


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
