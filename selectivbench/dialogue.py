"""The controller's half of one training: feed a child its batches, then examine it.

Sending and reading run at once (``Child.together``): the next batch is made while the child trains,
and what is held out never has its targets sent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from selectivbench.anatomy import Anatomy, dissect
from selectivbench.batch import Batch
from selectivbench.checkpoints import UNKEPT, Progress
from selectivbench.errors import ProtocolError
from selectivbench.metrics import divergence, element_guesses, finite
from selectivbench.profiles import Budget, EarlyStop, Plan
from selectivbench.record import Evaluation, Point, Tracker
from selectivbench.sandbox.controller import PREDICT_DEADLINE, Child, Logits
from selectivbench.seeds import Stream
from selectivbench.stopping import Gate
from selectivbench.tasks.base import Dataset

REPORTS = 20
"""Points of a learning curve, besides those of its validations."""
LOGITS_AT_ONCE = 1 << 23
"""Floats in one answer of a child, so that long tests do not fill the controller's memory."""
STEPS_AT_ONCE = 1 << 17
"""Steps of sequences in one question to a child: a model of paper's width holds some 30 kB for each."""
LARGEST_BATCH = 256


def fit(
    child: Child,
    data: Dataset,
    plan: Plan,
    seed: int,
    tracker: Tracker,
    progress: Progress = UNKEPT,
    early: EarlyStop | None = None,
) -> tuple[Point, ...]:
    """Train a child on every batch of the budget; the learning curve is what comes back.

    ``progress`` may hold an earlier part of the same training, which is then not done again. With
    ``early``, nothing is sent after a validation before its score is known, so that the number of
    batches depends on scores and not on who was faster.
    """
    begun = progress.resume(child)
    training = _Training(child, plan.budget, progress, begun, Gate(early, data, begun))
    held_out = _exam(data, "validation")
    child.enter("fit", plan.budget.deadline)
    points: tuple[Point, ...] = child.together(
        lambda: training.send(data, held_out, seed), lambda: training.receive(held_out, tracker)
    )
    return points


@dataclass(frozen=True, eq=False)
class _Training:
    """Both halves of a fit, which run at once: what is sent, and what comes back."""

    child: Child
    budget: Budget
    progress: Progress
    begun: tuple[Point, ...]
    gate: Gate

    @cached_property
    def validations(self) -> frozenset[int]:
        return evenly(self.budget.steps, self.budget.validations)

    @cached_property
    def reports(self) -> frozenset[int]:
        """A validation follows a report."""
        return self.validations | evenly(self.budget.steps, REPORTS)

    @property
    def left(self) -> range:
        """The steps that are still to be done."""
        done = self.begun[-1].step if self.begun else 0
        return range(done + 1, 0 if self.gate.over else self.budget.steps + 1)

    def send(self, data: Dataset, held_out: Exam, seed: int) -> None:
        size = self.budget.samples or data.sizes["train"]
        order = batch_order(size, self.budget.batch_size, self.budget.steps, seed)
        left = self.left
        for step, indices in zip(left, islice(order, left.start - 1, None), strict=False):
            self.child.train(data.batch("train", indices))
            if step not in self.reports:
                continue
            due = self.progress.due(step)  # before the report, whose reader will want to know
            self.child.report()
            if step in self.validations:
                held_out.ask(self.child)
                if self.gate.closes():
                    return
            if due:
                self.child.ask_checkpoint()

    def receive(self, held_out: Exam, tracker: Tracker) -> tuple[Point, ...]:
        points = list(self.begun)
        with self.gate:
            for step in sorted(self.reports.intersection(self.left)):
                _, loss = self.child.progress()
                if not math.isfinite(loss):
                    raise ProtocolError(f"the training loss is {loss} by step {step}.")
                validated = step in self.validations
                accuracy = held_out.mark(self.child).figure if validated else None
                tracker.point(step, self.budget.steps, loss, accuracy)
                points.append(Point(step, loss, accuracy))
                if self.gate.judge(accuracy):
                    break
                if self.progress.was_due(step):
                    self.progress.keep(self.child.checkpoint(), points)
        return tuple(points)


def pace(child: Child, data: Dataset, plan: Plan, seed: int) -> Mapping[str, float]:
    """Seconds of one training step (``step``) and of one predicted sequence (``predict``).

    A few steps beyond the budget and one validation batch, with nothing else going on; the first of
    each is not counted, since it may compile or allocate.
    """
    warm, counted = 2, 6
    size, batch_size = data.sizes["train"], plan.budget.batch_size
    batches = [data.batch("train", i) for i in batch_order(size, batch_size, warm + counted, seed)]
    exam = data.batch("validation", _first_chunk(data))
    child.enter("pace", plan.budget.deadline)
    _seconds(lambda: _trained(child, batches[:warm]))
    step = _seconds(lambda: _trained(child, batches[warm:])) / counted
    _seconds(lambda: _answered(child, exam))
    return {"step": step, "predict": _seconds(lambda: _answered(child, exam)) / len(exam.tokens)}


def _trained(child: Child, batches: Sequence[Batch]) -> None:
    for batch in batches:
        child.train(batch)
    child.report()
    child.progress()


def _answered(child: Child, batch: Batch) -> None:
    child.ask(batch)
    child.logits(batch)


def _seconds(do: Callable[[], None]) -> float:
    began = time.monotonic()
    do()
    return time.monotonic() - began


def evaluate(
    child: Child, data: Dataset, deadline: float = PREDICT_DEADLINE
) -> tuple[Evaluation, ...]:
    """The figure of every test split of a dataset, each with its floor and ceiling.

    deadline: seconds for all of them.
    """
    child.enter("predict", deadline)
    return tuple(_evaluation(child, data, split) for split in (*data.evaluations, *data.reported))


def batch_order(size: int, batch_size: int, steps: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Indices of each step's batch: once through in order, or shuffled passes if that is too few."""
    per_pass = size // batch_size
    if steps <= per_pass:
        yield from np.arange(steps * batch_size).reshape(steps, batch_size)
        return
    stream = Stream.named("batch_order", seed)
    for step in range(steps):
        if step % per_pass == 0:
            shuffled = stream.rng(step // per_pass).permutation(size)
        start = step % per_pass * batch_size
        yield shuffled[start : start + batch_size]


@dataclass(frozen=True, eq=False)
class Marks:
    """A figure, and the class guessed for each element (none where the metric is of distributions)."""

    figure: float
    guesses: NDArray[np.int64]


@dataclass(frozen=True)
class Exam:
    """One held-out split: what is asked of a child, and how its answers are marked."""

    metric: str
    batches: tuple[Batch, ...]
    exact: tuple[NDArray[np.float32], ...]
    """For ``negative_kl``: the true distributions of each batch."""

    def ask(self, child: Child) -> None:
        """Send every input of the split, without targets."""
        for batch in self.batches:
            child.ask(batch)

    def mark(self, child: Child) -> Marks:
        """The figure over all answers, in the unit of the metric (larger is better)."""
        total: float = 0.0
        of = 0
        answers = []
        for number, batch in enumerate(self.batches):
            logits = child.logits(batch)
            if not finite(logits):
                raise ProtocolError("logits: got NaN or infinity, allowed: finite numbers.")
            points, count, guesses = self._marked(number, batch, logits)
            total, of = total + points, of + count
            answers.append(guesses)
        return Marks(total / of, np.concatenate(answers))

    def _marked(
        self, number: int, batch: Batch, logits: Logits
    ) -> tuple[float, int, NDArray[np.int64]]:
        if self.metric == "accuracy":
            guesses, asked = element_guesses(logits, batch.targets, batch.element)
            return int((guesses == asked).sum()), len(asked), guesses
        nats, steps = divergence(logits, self.exact[number], batch.element)
        return -nats, steps, np.empty(0, dtype=np.int64)


def _exam(data: Dataset, split: str) -> Exam:
    chunks = list(_chunks(data.sizes[split], rows_at_once(data)))
    batches = tuple(data.batch(split, chunk) for chunk in chunks)
    needs_exact = data.metric == "negative_kl"
    exact = tuple(data.reference(split, chunk) for chunk in chunks) if needs_exact else ()
    return Exam(data.metric, batches, exact)


def _evaluation(child: Child, data: Dataset, split: str) -> Evaluation:
    exam = _exam(data, split)
    marks: Marks = child.together(lambda: exam.ask(child), lambda: exam.mark(child))
    levels = data.levels(split)
    anatomy = _anatomy(data, split, marks)
    scored = split in data.evaluations
    return Evaluation(split, marks.figure, levels.floor, levels.ceiling, anatomy, scored)


def _anatomy(data: Dataset, split: str, marks: Marks) -> Anatomy | None:
    described = data.described(split)
    return None if described is None else dissect(described, marks.guesses, data.class_names)


def rows_at_once(data: Dataset) -> int:
    """Sequences that are asked for at once."""
    rows = min(LOGITS_AT_ONCE // data.n_classes, STEPS_AT_ONCE) // data.max_length
    return min(max(1, rows), LARGEST_BATCH)


def _first_chunk(data: Dataset) -> NDArray[np.int64]:
    return np.arange(min(rows_at_once(data), data.sizes["validation"]))


def _chunks(size: int, rows: int) -> Iterator[NDArray[np.int64]]:
    for start in range(0, size, rows):
        yield np.arange(start, min(size, start + rows))


def evenly(steps: int, points: int) -> frozenset[int]:
    """``points`` steps, evenly spread, the last one among them."""
    return frozenset(round(steps * (i + 1) / points) for i in range(points)) - {0}
