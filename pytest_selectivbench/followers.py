"""What follows the cases of a session: the live line, the events, and W&B where it was asked for."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from pytest_selectivbench.progress import Progress
from selectivbench.errors import UsageError, explain
from selectivbench.store import SESSION
from selectivbench.tracking import Tracking
from selectivbench.tracking.events import Events
from selectivbench.tracking.mirror import Wandb
from selectivbench.tracking.together import Together


def trackings(out: Path, project: str) -> Together:
    """All of them, for records that go to ``out``; no project, no W&B."""
    session = out / SESSION
    members: list[Tracking] = [Progress.on(sys.__stdout__), Events(session)]
    if project:
        spec = find_spec("wandb")
        if spec is None or spec.origin is None:  # a folder of runs is no package
            got, remedy = "no such package", "pip install wandb"
            raise UsageError(explain("wandb", got, "an installed package", remedy))
        members.append(Wandb(project, session))
    return Together(members)
