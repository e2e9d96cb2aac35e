"""A probe from beginning to end: train or take a saved state, listen, measure, intervene."""

from __future__ import annotations

from dataclasses import dataclass

from selectivbench.checks import trained_state
from selectivbench.dialogue import fit
from selectivbench.job import Job, order_of
from selectivbench.mechanism.examine import arrays, interventions, measured, nothing_to_steer
from selectivbench.mechanism.hearing import figure, listen
from selectivbench.mechanism.report import Probe
from selectivbench.record import Tracker
from selectivbench.sandbox.controller import Child, opened
from selectivbench.sandbox.launch import Launcher
from selectivbench.saved import Saved, SavedModels
from selectivbench.tasks.base import Dataset


@dataclass(frozen=True)
class Wanted:
    """What is asked of a probe.

    sequences: how many of the split, None for all. clamp, swap: whether gates are replaced.
    """

    sequences: int | None = None
    clamp: bool = False
    swap: bool = False


def probe(
    job: Job,
    launcher: Launcher,
    tracker: Tracker,
    wanted: Wanted,
    models: SavedModels | None = None,
) -> Probe:
    """Probe the model of a job on the first evaluation split of its last task.

    models: the model is taken from there, or trained and kept there. A child that fails raises its
    ChildError.
    """
    task = job.tasks[-1]
    data = {each: job.dataset(each) for each in job.tasks}
    probed = data[task]
    split = probed.evaluations[0]
    with opened(launcher, order_of(job, data)) as child:
        _make_trained(child, job, data[job.tasks[0]], tracker, models)
        heard = listen(child, probed, split, wanted.sequences)
        outcomes = interventions(child, heard, job.seed, clamped=wanted.clamp, swapped=wanted.swap)
    levels = probed.levels(split)
    return Probe(
        entry=job.submission.id,
        source_sha256=job.submission.sha256,
        task=task.id,
        variant=job.variant,
        profile=job.profile.name,
        seed=job.seed,
        steps=job.plan.budget.steps,
        split=split,
        sequences=len(heard.marks),
        metric=probed.metric,
        figure=figure(heard.marks),
        floor=levels.floor,
        ceiling=levels.ceiling,
        signals=measured(heard),
        interventions=outcomes,
        nothing_to_steer=nothing_to_steer(heard.signals),
        symbol_names=tuple(probed.symbol_names),
        arrays=arrays(heard),
    )


def _make_trained(
    child: Child, job: Job, data: Dataset, tracker: Tracker, models: SavedModels | None
) -> None:
    identity = job.identity(job.tasks[0])
    if models is not None and models.has(identity):
        child.load(models.find(identity).state)
        return
    fit(child, data, job.plan, job.seed, tracker, early=job.profile.early)
    if models is not None:
        models.write(identity, Saved(trained_state(child)))
