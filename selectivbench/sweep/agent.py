"""What an agent of W&B is told of the cell that it ran: its run shows in the sweep's table."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from selectivbench.record import Record
from selectivbench.sweep.choice import validation_figure

SWEEP = "WANDB_SWEEP_ID"
"""Set by an agent for the commands that it starts, with the run's name beside it."""


def tell_agent(record: Record, by: str, folder: Path) -> None:
    """Log a record's curve and figures to the run of the agent, where one has started this process.

    The record is in its place by then: whatever W&B does, the cell is done, and this says so in a line.
    """
    if SWEEP not in os.environ or find_spec("wandb") is None:
        return
    try:
        _log(record, by, folder)
    except Exception as error:  # W&B is a courtesy: it never takes a cell's result away
        print(f"W&B was not told: {type(error).__name__}: {error}", file=sys.stderr)


def _log(record: Record, by: str, folder: Path) -> None:
    import wandb

    with wandb.init(dir=str(folder), job_type="sweep cell") as run:
        for point in record.curve:
            run.log({"loss": point.loss, "curve": point.accuracy}, step=point.step)
        run.summary.update(
            {
                by: validation_figure(record, by),
                "status": record.status,
                "accuracy": record.accuracy,
                "score": record.score,
                "parameters": record.parameters,
            }
        )
