"""``selectivbench sweep``: many trainings from one file."""

from __future__ import annotations

import argparse
from pathlib import Path

from selectivbench.cli.commands import Commands
from selectivbench.errors import UsageError, explain

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
    resume = _action(actions, "resume", "run what is left, and what failed")
    resume.add_argument("--changed", action="store_true", help="the file may differ from before")
    resume.set_defaults(run=lambda given: _run(given, True))
    for action in (run, resume):
        _add_engine(action)
        action.add_argument(
            "--yes", action="store_true", help="more than a million cells are meant"
        )
    status = _action(actions, "status", "how far it has come, and what failed")
    status.set_defaults(run=_status)
    results = _action(actions, "results", "CSV, best of each value, learning-rate plateaus")
    results.set_defaults(run=_results)
    cell = _action(actions, "cell", "run one cell here; what an agent of W&B calls")
    cell.add_argument("words", nargs=argparse.REMAINDER, metavar="--AXIS=VALUE")
    cell.set_defaults(run=_cell)
    export = _action(actions, "export-wandb", "print the YAML for `wandb sweep`")
    export.set_defaults(run=_export)
    _add_planning(actions)


def _add_planning(actions: Commands) -> None:
    measure = _action(actions, "measure", "time a few steps of each submission, for --dry-run")
    measure.add_argument("--widths", default="256,512", help="with commas (default: 256,512)")
    measure.add_argument("--batch-size", type=int, default=2, help="(default: 2)")
    measure.add_argument("--steps", type=Path, help="the file to write (default: beside FILE)")
    measure.set_defaults(run=_measure)
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
    option("--isolate", default="1", help="0 to 3, or highest")
    option("--retries", type=int, default=3, help="for a cell whose worker died (default: 3)")
    option("--address", help="ray: of the cluster (default: RAY_ADDRESS, or one started here)")
    option("--cpus", type=float, default=1.0, help="ray: of one cell (default: 1)")
    option("--gpus", type=float, default=0.0, help="ray: of one cell; 0.25 shares one (default: 0)")
    option("--return-records", action="store_true", help="ray: nodes do not see the folder")


def _run(given: argparse.Namespace, again: bool) -> str:
    from selectivbench.sweep import commands
    from selectivbench.sweep.engines import Wish

    wish = Wish(
        engine=given.engine,
        workers=given.workers,
        cpus=given.cpus,
        gpus=given.gpus,
        address=given.address,
        shared=not given.return_records,
    )
    return commands.run(
        commands.Orders(
            path=given.file,
            out=given.out,
            wish=wish,
            device=given.device,
            isolate=given.isolate,
            retries=given.retries,
            again=again,
            changed=again and given.changed,
            many=given.yes,
        )
    )


def _status(given: argparse.Namespace) -> str:
    from selectivbench.sweep import commands

    return commands.status(given.file, given.out)


def _results(given: argparse.Namespace) -> str:
    from selectivbench.sweep import commands

    return commands.summary(given.file, given.out)


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
    steps = timing.measure(
        file.read(given.file), _numbers(given.widths), given.batch_size, given.device
    )
    timing.write(path, steps)
    return f"{len(steps)} measured steps in {path}"


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
