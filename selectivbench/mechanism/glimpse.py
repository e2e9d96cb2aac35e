"""A short look at the gates of a model that was just trained, for the pictures of its run."""

from __future__ import annotations

from selectivbench.job import Job, order_of
from selectivbench.mechanism.examine import arrays
from selectivbench.mechanism.hearing import listen
from selectivbench.sandbox.controller import opened
from selectivbench.sandbox.launch import Launcher
from selectivbench.sandbox.states import State
from selectivbench.tasks.base import KINDS
from selectivbench.tracking.gates import Gates

SEQUENCES = 16
DEADLINE = 30.0
"""Seconds for all of them; a layer takes a fraction of one."""
LARGEST = 1 << 29
"""Bytes of their signals: a ``probe`` may show anything, and pictures are worth no more."""


def glimpse(job: Job, launcher: Launcher, state: State) -> Gates:
    """What the gates do on the first sequences of the trained task's test split.

    In a child of its own, which gets the trained state. Its failure is a ChildError; one of a model
    without a known layer or a ``probe`` says ``signals.NOTHING_TO_HEAR``. UsageError for too much.
    """
    data = {task: job.dataset(task) for task in job.tasks}
    heard_of = data[job.tasks[0]]
    split = heard_of.evaluations[0]
    count = min(SEQUENCES, heard_of.sizes[split])
    with opened(launcher, order_of(job, data)) as child:
        child.load(state)
        heard = listen(child, heard_of, split, count, DEADLINE, LARGEST)
    return Gates(arrays(heard), KINDS, tuple(heard_of.symbol_names))
