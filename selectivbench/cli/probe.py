"""``selectivbench probe``: what a trained layer's gates do on each kind of step."""

from __future__ import annotations

import argparse
from pathlib import Path

from selectivbench.cli.commands import Commands
from selectivbench.saved import FOLDER


def add(commands: Commands) -> None:
    """Register ``probe``."""
    parser = commands.add_parser("probe", help="see what a trained layer's gates do on each step")
    option = parser.add_argument
    option("model", type=Path, metavar="mine.py")
    option("--task", required=True, help="a name of `selectivbench tasks`")
    option("--variant", help="default: the profile's first")
    option("--profile", default="lite", help="smoke, lite or paper (default: lite)")
    option("--seed", type=int, default=1)
    option("--steps", type=int, help="cut the training budget")
    option("--sequences", type=int, help="of the test split (default: all)")
    option("--clamp", action="store_true", help="hold the gates at their mean; what becomes of it?")
    option("--swap", action="store_true", help="swap gates between symbols and fillers")
    option(
        "--models",
        type=Path,
        default=Path(".selectivbench/records") / FOLDER,
        help="saved models: taken from there, or kept there (default: beside the records)",
    )
    option("--record", type=Path, metavar="R.json", help="of this training: put the result into it")
    option("--out", type=Path, help="a folder for the result (JSON) and its arrays (npz)")
    option("--figures", type=Path, help="a folder for pictures (SVG) with their numbers (CSV)")
    option("--isolate", default="1", help="0 to 3, or highest (default: 1)")
    option("--device", default="auto", help="auto, cpu or cuda")
    parser.set_defaults(run=_probe)


def _probe(given: argparse.Namespace) -> str:
    from selectivbench.mechanism.asking import Asked, perform
    from selectivbench.mechanism.probing import Wanted

    asked = Asked(
        model=given.model,
        task=given.task,
        variant=given.variant,
        profile=given.profile,
        seed=given.seed,
        steps=given.steps,
        wanted=Wanted(given.sequences, given.clamp, given.swap),
        models=given.models,
        record=given.record,
        out=given.out,
        figures=given.figures,
        isolate=given.isolate,
        device=given.device,
    )
    return perform(asked)
