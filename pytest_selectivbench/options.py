"""The command-line options, their ini twins, and what they come to."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

MODEL_HELP = "submission file, or a folder of them; may be given several times"
ISOLATE_HELP = (
    "0: in this process; 1: a process for each case; 2: and Landlock; 3: and namespaces; or highest"
)
PRECISION_HELP = "fp32, or bf16: autocast over float32 weights; kept apart from other results"
GRAPHS_HELP = (
    "replay training steps as CUDA graphs, which freeze whatever Python a module does between steps; "
    "kept apart from other results"
)
DEFAULT_PROJECT = "selectivbench"
NOT_IN_PROJECTS = frozenset("/\\#?%:")
"""What W&B does not allow in the name of a project; paths and node ids have some of it."""
WANDB_HELP = (
    "mirror each case as a W&B run; without =PROJECT the project is WANDB_PROJECT or selectivbench"
)
# name, default, help, argparse keywords. The ini twin has the name with underscores.
TEXT_OPTIONS: tuple[tuple[str, str, str], ...] = (
    ("profile", "lite", "sizes and budgets: smoke, lite or paper"),
    ("tasks", "", "task names with commas, NAME:VARIANT, or all (default: the profile's own)"),
    ("seeds", "", "whole numbers with commas (default: the profile's own)"),
    ("out", ".selectivbench/records", "folder of the records, which is the cache too"),
    ("device", "auto", "auto, cpu or cuda"),
    ("precision", "fp32", PRECISION_HELP),
    ("steps", "", "cut the training budget to N steps; kept apart from full results"),
    ("isolate", "1", ISOLATE_HELP),
    ("validity", "auto", "validity checks too: yes, no, or auto (the quick ones, in smoke)"),
)
FLAGS: tuple[tuple[str, str], ...] = (
    ("save", "keep the trained model of each training, in OUT/models"),
    ("from-saved", "evaluate kept models, train nothing"),
    ("rerun", "train again where a record could be re-used"),
    ("cuda-graphs", GRAPHS_HELP),
    ("timing", "time the layer too: training step, forward and decoding, at several lengths"),
    ("no-gate", "record a score below the bar, but do not fail for it"),
)


@dataclass(frozen=True)
class Settings:
    """What the options came to, as plain values; checked where they are used."""

    models: tuple[Path, ...]
    profile: str
    tasks: tuple[str, ...]
    seeds: tuple[int, ...]
    out: Path
    device: str
    steps: int | None
    isolate: str
    validity: str
    save: bool
    from_saved: bool
    rerun: bool
    gate: bool
    wandb: str
    """Project; empty for no W&B."""
    timing: bool = False
    precision: str = "fp32"
    cuda_graphs: bool = False


def add(parser: pytest.Parser) -> None:
    """Register every option with its ini twin."""
    group = parser.getgroup("selectiv", "SelectivBench: train a submission and judge it")
    group.addoption("--selectiv-model", action="append", metavar="PATH", help=MODEL_HELP)
    parser.addini("selectiv_model", MODEL_HELP, type="paths", default=[])
    for name, default, text in TEXT_OPTIONS:
        text = f"{text} (default: {default})" if default else text
        group.addoption(f"--selectiv-{name}", metavar=name.upper(), help=text)
        parser.addini(f"selectiv_{name}", text, default=default)
    for name, text in FLAGS:
        text = f"{text} (default: off)"
        group.addoption(f"--selectiv-{name}", action="store_true", default=None, help=text)
        parser.addini(f"selectiv_{name.replace('-', '_')}", text, type="bool", default=False)
    # A path that follows is taken for the project: refused in `_project`, with the remedy.
    group.addoption(
        "--selectiv-wandb",
        nargs="?",
        const="",
        metavar="PROJECT",
        help=f"{WANDB_HELP} (default: off)",
    )
    parser.addini("selectiv_wandb", f"project; {WANDB_HELP} (default: off)", default="")


def read(config: pytest.Config) -> Settings | None:
    """The settings, or None where no model was given. Bad numbers are a UsageError."""
    here = config.invocation_params.dir
    models = [here / path for path in config.getoption("selectiv_model") or ()]
    models = models or list(config.getini("selectiv_model"))
    if not models:
        return None
    return Settings(
        models=tuple(models),
        profile=_value(config, "profile"),
        tasks=_list(_value(config, "tasks")),
        seeds=tuple(_number("seeds", text, 0) for text in _list(_value(config, "seeds"))),
        out=here / _value(config, "out"),
        device=_value(config, "device"),
        steps=_number("steps", text, 1) if (text := _value(config, "steps")) else None,
        isolate=_value(config, "isolate"),
        validity=_choice("validity", _value(config, "validity"), ("auto", "yes", "no")),
        save=_value(config, "save"),
        from_saved=_value(config, "from_saved"),
        rerun=_value(config, "rerun"),
        gate=not _value(config, "no_gate"),
        wandb=_project(config),
        timing=_value(config, "timing"),
        precision=_choice("precision", _value(config, "precision"), ("fp32", "bf16")),
        cuda_graphs=_value(config, "cuda_graphs"),
    )


def _value(config: pytest.Config, name: str) -> Any:
    given = config.getoption(f"selectiv_{name}")
    return config.getini(f"selectiv_{name}") if given is None else given


def _project(config: pytest.Config) -> str:
    """The W&B project, or nothing where W&B was not asked for."""
    given: str | None = config.getoption("selectiv_wandb")
    asked = given is not None
    project = given if asked else config.getini("selectiv_wandb")
    if not project:
        return os.environ.get("WANDB_PROJECT") or DEFAULT_PROJECT if asked else ""
    arguments = [str(argument) for argument in config.invocation_params.args]
    apart = ("--selectiv-wandb", project) in pairwise(arguments)
    if apart or set(project) & NOT_IN_PROJECTS:
        from selectivbench.errors import UsageError, explain

        remedy = "write --selectiv-wandb=PROJECT, or put --selectiv-wandb last"
        raise UsageError(explain("--selectiv-wandb", project, "a project's name after =", remedy))
    return project


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _choice(name: str, text: str, allowed: tuple[str, ...]) -> str:
    from selectivbench.errors import UsageError, explain, near

    if text not in allowed:
        raise UsageError(explain(f"--selectiv-{name}", text, near(text, allowed)))
    return text


def _number(name: str, text: str, least: int) -> int:
    from selectivbench.errors import UsageError, explain

    if not text.strip().isdecimal() or int(text) < least:
        allowed = f"whole numbers, {least} or more"
        raise UsageError(explain(f"--selectiv-{name}", text, allowed))
    return int(text)
