"""How much a cell has to do: sequence steps ("tokens") that are trained on, and predicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from selectivbench.custom import Training
from selectivbench.profiles import Plan, get_profile
from selectivbench.sizes import resized
from selectivbench.sweep.runs import Run
from selectivbench.tasks import Task, get_task
from selectivbench.tasks.base import Dataset

FORWARD = 1 / 3
"""Of a training step's work, what a prediction costs: the backward pass is twice the forward."""
SAMPLE = 16
"""Sequences that stand for the length of all."""


@dataclass(frozen=True)
class Tokens:
    """Sequence steps, padding included. pairs: of two of them in one sequence, each way."""

    count: int = 0
    pairs: int = 0

    @classmethod
    def of(cls, sequences: int, length: int) -> Tokens:
        """All of sequences of one length.

        >>> Tokens.of(2, 10)
        Tokens(count=20, pairs=200)
        """
        return cls(sequences * length, sequences * length**2)

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(self.count + other.count, self.pairs + other.pairs)

    @property
    def length(self) -> float:
        """Mean over the tokens, of the sequence that each stands in."""
        return self.pairs / self.count if self.count else 0.0


@dataclass(frozen=True)
class Load:
    """The model, the optimiser's steps, and what is trained on and predicted."""

    width: int
    layers: int
    steps: int
    trained: Tokens
    predicted: Tokens

    @property
    def weight(self) -> float:
        """Grows with the work of the cell, whatever the submission: enough to sort by."""
        tokens = self.trained.count + FORWARD * self.predicted.count
        return tokens * self.layers * self.width**2


class Loads:
    """Loads of cells; lengths are looked up once for each dataset, whatever the seed."""

    def __init__(self) -> None:
        self._splits: dict[tuple[str, str, str], Mapping[str, tuple[int, int]]] = {}

    def of(self, run: Run) -> Load:
        """What a run trains on and predicts; one that reuses a model predicts its own split alone."""
        training, plan = run.training, plan_of(run.training)
        splits = self._look(training)
        tests = [run.evaluation] if run.evaluation else [s for s in splits if s.startswith("test")]
        predicted = sum((Tokens.of(*splits[split]) for split in tests), Tokens())
        steps, trained = 0, Tokens()
        if not run.from_saved:
            budget = plan.budget
            steps = budget.steps
            trained = Tokens.of(steps * budget.batch_size, splits["train"][1])
            size, length = splits["validation"]
            predicted += Tokens.of(budget.validations * size, length)
        return Load(plan.model.d_model, plan.model.n_layers, steps, trained, predicted)

    def _look(self, training: Training) -> Mapping[str, tuple[int, int]]:
        """Size and length of each split of the task's data."""
        task = get_task(training.task)
        variant = training.variant or task.variants[training.profile][0]
        at = (task.id, training.profile, variant)
        if at not in self._splits:
            data = task.dataset(training.profile, variant, training.seed)
            names = ("train", "validation", *data.evaluations)
            self._splits[at] = {name: (data.sizes[name], _length(data, name)) for name in names}
        return self._splits[at]


def plan_of(training: Training) -> Plan:
    """Model and budget of a training, at its own sizes."""
    profile = get_profile(training.profile)
    return resized(profile.plan(trained_by(training).name), training.numbers)


def trained_by(training: Training) -> Task:
    """The task that is trained on: another one where the task borrows its training."""
    return get_task(get_task(training.task).trains_on)


def _length(data: Dataset, split: str) -> int:
    count = min(SAMPLE, data.sizes[split])
    return int(data.batch(split, range(count)).tokens.shape[1])
