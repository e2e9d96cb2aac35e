"""``selectivbench sweep``: many trainings from one file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from selectivbench.cli.commands import Commands
from selectivbench.errors import UsageError, explain

if TYPE_CHECKING:
    from selectivbench.sweep.engines import Wish

STEPS = "step_times.json"
"""Measured steps, beside the sweep files that they are for."""


def add(commands: Commands) -> None:
    """Register ``sweep`` and its actions."""
    parser = commands.add_parser("sweep", help="many trainings from one file, on many machines")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    run = _action(actions, "run", "run every cell")
    run.add_argument("--dry-run", action="store_true", help="count cells, estimate device-hours")
    run.add_argument("--steps", type=Path, help="measured steps (default: beside the file)")
    run.set_defaults(run=lambda given: _dry_run(given) if given.dry_run else _run(given, False))
    resume = _action(
        actions, "resume", "run what is left, or failed; all of it where nothing was begun"
    )
    resume.add_argument("--changed", action="store_true", help="the file may differ from before")
    resume.set_defaults(run=lambda given: _run(given, True))
    for action in (run, resume):
        _add_engine(action)
        action.add_argument("--isolate", default="1", help="0 to 3, or highest")
        action.add_argument(
            "--retries", type=int, default=3, help="for a cell whose worker died (default: 3)"
        )
        action.add_argument(
            "--yes", action="store_true", help="more than a million cells are meant"
        )
    status = _action(actions, "status", "how far it has come, and what failed")
    status.set_defaults(run=_status)
    results = _action(actions, "results", "CSV, best of each value, learning-rate plateaus")
    results.add_argument("--plot", action="store_true", help="draw the plateaus (extra figures)")
    results.set_defaults(run=_results)
    cell = _action(actions, "cell", "run one cell here; what an agent of W&B calls")
    cell.add_argument("words", nargs=argparse.REMAINDER, metavar="--AXIS=VALUE")
    cell.set_defaults(run=_cell)
    export = _action(actions, "export-wandb", "print the YAML for `wandb sweep`")
    export.set_defaults(run=_export)
    _add_planning(actions)


def _add_planning(actions: Commands) -> None:
    measure = _action(actions, "measure", "time a few steps of each submission, for --dry-run")
    measure.add_argument("--widths", default="256,384", help="with commas (default: 256,384)")
    measure.add_argument("--batch-size", type=int, default=1, help="(default: 1)")
    measure.add_argument("--steps", type=Path, help="the file to add to (default: beside FILE)")
    measure.set_defaults(run=_measure)
    rehearse = actions.add_parser("rehearse", help="try an engine with cells that only sleep")
    rehearse.add_argument("--cells", type=int, default=1_000, help="(default: 1000)")
    rehearse.add_argument("--seconds", type=float, default=0.1, help="median sleep (default: 0.1)")
    rehearse.add_argument(
        "--deaths", type=float, default=0.001, help="share whose worker dies once"
    )
    _add_engine(rehearse)
    rehearse.set_defaults(run=_rehearse)
    plan = actions.add_parser("plan", help="cost and wall-clock on many devices, simulated")
    plan.add_argument("files", type=Path, nargs="+", metavar="FILE.toml")
    plan.add_argument("--steps", type=Path, help="measured steps (default: beside the first file)")
    plan.add_argument("--devices", default="8,64,512", help="with commas (default: 8,64,512)")
    plan.add_argument("--tflops", type=float, help="assume a GPU that sustains so much")
    plan.add_argument(
        "--floor-ms", type=float, default=30.0, help="its shortest step (default: 30)"
    )
    plan.set_defaults(run=_plan)


def _action(actions: Commands, name: str, about: str) -> argparse.ArgumentParser:
    action = actions.add_parser(name, help=about)
    action.add_argument("file", type=Path, metavar="FILE.toml")
    if name != "measure":
        action.add_argument("--out", type=Path, help="default: .selectivbench/sweeps/NAME")
    if name in ("run", "resume", "cell", "measure"):
        action.add_argument("--device", default="auto", help="auto, cpu or cuda")
    return action


def _add_engine(action: argparse.ArgumentParser) -> None:
    option = action.add_argument
    option("--engine", default="local", help="local or ray (default: local)")
    option(
        "--workers", type=int, metavar="N", help="cells at a time (default: all there is room for)"
    )
    option("--address", help="ray: of the cluster (default: RAY_ADDRESS, or one started here)")
    option("--cpus", type=float, default=1.0, help="ray: of one cell (default: 1)")
    option("--gpus", type=float, default=0.0, help="ray: of one cell; 0.25 shares one (default: 0)")
    option("--return-records", action="store_true", help="ray: nodes do not see the folder")


def _run(given: argparse.Namespace, again: bool) -> str:
    from selectivbench.sweep import commands

    return commands.run(
        commands.Orders(
            path=given.file,
            out=given.out,
            wish=_wish(given),
            device=given.device,
            isolate=given.isolate,
            retries=given.retries,
            again=again,
            changed=again and given.changed,
            many=given.yes,
        )
    )


def _wish(given: argparse.Namespace) -> Wish:
    from selectivbench.sweep.engines import Wish

    return Wish(
        engine=given.engine,
        workers=given.workers,
        cpus=given.cpus,
        gpus=given.gpus,
        address=given.address,
        shared=not given.return_records,
    )


def _rehearse(given: argparse.Namespace) -> str:
    from selectivbench.sweep.rehearsal import rehearse

    return str(rehearse(_wish(given), given.cells, given.seconds, given.deaths))


def _status(given: argparse.Namespace) -> str:
    from selectivbench.sweep import commands

    return commands.status(given.file, given.out)


def _results(given: argparse.Namespace) -> str:
    from selectivbench.sweep import commands

    return commands.summary(given.file, given.out, given.plot)


def _cell(given: argparse.Namespace) -> str:
    from selectivbench.sweep import commands

    return commands.one_cell(given.file, given.out, given.device, given.words)


def _export(given: argparse.Namespace) -> str:
    from selectivbench.sweep import commands

    return commands.export_wandb(given.file, given.out)


def _dry_run(given: argparse.Namespace) -> str:
    from selectivbench.sweep import file, plan

    return plan.dry_run(file.read(given.file), given.steps or given.file.parent / STEPS)


def _measure(given: argparse.Namespace) -> str:
    from selectivbench.sweep import file, timing

    path = given.steps or given.file.parent / STEPS
    sweep, widths = file.read(given.file), _numbers(given.widths)
    for step in timing.measure(sweep, widths, given.batch_size, given.device):
        timing.add(path, [step])
        sizes = f"width {step.width}, {step.tokens} steps in sequences of {step.length}"
        print(f"{step.submission}, {sizes}: {step.seconds:.3f} s", file=sys.stderr)
    return f"measured steps in {path}"


def _plan(given: argparse.Namespace) -> str:
    from selectivbench.sweep import plan
    from selectivbench.sweep.estimate import Gpu

    gpu = Gpu(given.tflops, given.floor_ms / 1000) if given.tflops else None
    steps = given.steps or given.files[0].parent / STEPS
    return plan.plan(plan.Question(tuple(given.files), steps, _numbers(given.devices), gpu))


def _numbers(text: str) -> tuple[int, ...]:
    words = text.split(",")
    if not all(word.isdecimal() and int(word) for word in words):
        raise UsageError(explain("list", text, "whole numbers with commas"))
    return tuple(map(int, words))
