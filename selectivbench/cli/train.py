"""``selectivbench train``: one training at sizes of one's own, outside any verdict."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from selectivbench import sizes
from selectivbench.cli.commands import Commands


def add(commands: Commands) -> None:
    """Register ``train``; every size of ``sizes.AXES`` is an option."""
    parser = commands.add_parser("train", help="one training at sizes of your own, no verdict")
    option = parser.add_argument
    option("submission", type=Path, metavar="mine.py")
    option("--task", required=True, help="a name of `selectivbench tasks`")
    option("--variant", help="default: the profile's first")
    option("--profile", default="lite", help="holds for what is not given below (default: lite)")
    option("--seed", type=int, default=1)
    for name, axis in sizes.AXES.items():
        option(f"--{name.replace('_', '-')}", dest=name, metavar="N", help=axis.about)
    option("--out", type=Path, default=Path(".selectivbench/custom"), help="folder of the records")
    option("--device", default="auto", help="auto, cpu or cuda")
    option("--isolate", default="1", help="0 to 3, or highest")
    option("--save", action="store_true", help="keep the trained model beside the record")
    option("--from-saved", action="store_true", help="evaluate a kept model, train nothing")
    option("--json", action="store_true", help="print the whole record")
    parser.set_defaults(run=_train)


def _train(given: argparse.Namespace) -> str:
    from selectivbench import custom
    from selectivbench.tracking.lines import Lines

    asked = {name: getattr(given, name) for name in sizes.AXES}
    chosen = {name: value for name, value in asked.items() if value is not None}
    what = (given.submission, given.task, given.variant, given.profile, given.seed, chosen)
    place = custom.Place(given.out, given.device, given.isolate, given.save, given.from_saved)
    record = custom.run_training(custom.Training(*what), place, Lines(sys.stderr))
    return record.to_json().rstrip() if given.json else custom.line(record)
