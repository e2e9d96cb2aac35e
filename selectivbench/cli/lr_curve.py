"""``selectivbench lr-curve``: accuracy against learning rate, on validation data."""

from __future__ import annotations

import argparse
from pathlib import Path

from selectivbench.cli.commands import Commands
from selectivbench.errors import UsageError, explain


def add(commands: Commands) -> None:
    """Register ``lr-curve``."""
    parser = commands.add_parser("lr-curve", help="is the default learning rate in its plateau?")
    option = parser.add_argument
    option("submission", type=Path, metavar="mine.py")
    option("--task", required=True, help="a name of `selectivbench tasks`")
    option("--variant", help="default: the profile's first")
    option("--profile", default="lite")
    option("--rates", help="with commas (default: four, from 1e-3 to 3e-2)")
    option("--seeds", default="1", help="with commas (default: 1)")
    option("--steps", type=int, help="cut the training budget; such a curve is not kept in a file")
    option(
        "--out", type=Path, default=Path(".selectivbench/lr"), help="records, re-used (%(default)s)"
    )
    option("--write", type=Path, metavar="FILE.json", help="keep the curve among others in a file")
    parser.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> str:
    from selectivbench import lr_curve
    from selectivbench.custom import Place

    if given.write and given.steps is not None:  # a file's curves do not tell of a budget
        raise UsageError(explain("--write", "a curve of --steps", "one of the whole budget"))
    question = lr_curve.Question(
        submission=given.submission,
        task=given.task,
        variant=given.variant,
        profile=given.profile,
        rates=lr_curve.RATES if given.rates is None else lr_curve.rates_of(given.rates),
        seeds=lr_curve.seeds_of(given.seeds),
        steps=given.steps,
    )
    curve = lr_curve.measure(question, Place(out=given.out))
    if given.write:
        lr_curve.write(curve, given.write)
    return lr_curve.table(curve)
