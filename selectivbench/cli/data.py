"""``selectivbench data``: the sequences themselves, without training anything."""

from __future__ import annotations

import argparse
import json

from selectivbench.cli.commands import Commands


def add(commands: Commands) -> None:
    """Register ``data`` and its actions."""
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
