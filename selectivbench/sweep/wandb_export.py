"""A sweep as a W&B sweep: `wandb agent` on any machine then runs its cells, one command each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from selectivbench.sizes import Size
from selectivbench.sweep.file import Sweep

DRAW = "draw"
"""The parameter that stands for the number of a random draw: W&B repeats ours, and draws nothing."""


def to_yaml(sweep: Sweep, root: Path) -> str:
    """The text for ``wandb sweep``. Its parameters have the names that ``sweep cell`` takes.

    root: the sweep's folder, which every agent's machine must see under the same path.
    """
    command = ["selectivbench", "sweep", "cell", "--out", str(root.absolute()), str(sweep.path)]
    lines = ["# `wandb sweep` this file once; then, on each machine, the `wandb agent` it prints."]
    lines += [f"name: {json.dumps(sweep.name)}", "method: grid", "metric:"]
    lines += [f"  name: {sweep.choice.by}", "  goal: maximize", "command:", '  - "${env}"']
    lines += [f"  - {json.dumps(word)}" for word in command]
    lines += ['  - "${args}"', "parameters:"]
    for name, values in _parameters(sweep):
        listed = ", ".join(_scalar(value) for value in values)
        lines += [f"  {name}:", f"    values: [{listed}]"]
    return "\n".join(lines) + "\n"


def _parameters(sweep: Sweep) -> list[tuple[str, Sequence[Size]]]:
    found: list[tuple[str, Sequence[Size]]] = [
        ("submission", [path.stem for path in sweep.submissions])
    ]
    found += sweep.grid.items()
    if sweep.draws:
        found.append((DRAW, range(sweep.draws.count)))
    return [*found, ("seed", sweep.seeds)]


def _scalar(value: Size) -> str:
    """YAML 1.1 reads 1e-05 as a word, so numbers are written without an exponent.

    >>> _scalar(1e-5), _scalar("amb20"), _scalar(256)
    ('0.00001', '"amb20"', '256')
    """
    if isinstance(value, float):
        text = format(Decimal(repr(value)), "f")
        return text if "." in text else f"{text}.0"
    return json.dumps(value)
