"""Accuracy against learning rate: is a default rate inside its plateau?

Recurrent models learn only in a narrow window of rates, so a comparison at one rate may compare the
rate. Only validation data is looked at; test figures choose nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from selectivbench.custom import Place, Training, run_training
from selectivbench.errors import RecordError, UsageError, explain
from selectivbench.machine import resolve
from selectivbench.profiles import get_profile
from selectivbench.record import Record
from selectivbench.sandbox import levels
from selectivbench.sandbox.launchers import Launchers
from selectivbench.sparkline import sparkline
from selectivbench.submission import load
from selectivbench.tasks import get_task
from selectivbench.tasks.plans import variant_of

RATES = (1e-3, 3e-3, 1e-2, 3e-2)
PLATEAU = 0.02
"""Validation accuracy that a rate may lie below the best one and still be as good."""


@dataclass(frozen=True)
class Rung:
    """One rate: the last validation figure by seed; 0 where the training failed."""

    lr: float
    figures: Mapping[str, float]

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return fmean(self.figures.values())


@dataclass(frozen=True)
class Curve:
    """The rates of one entry on one task; ``default`` is the one that it is judged with."""

    entry: str
    task: str
    variant: str
    profile: str
    default: float
    rungs: tuple[Rung, ...]

    @property
    def best(self) -> Rung:
        """The rate with the highest mean."""
        return max(self.rungs, key=lambda rung: rung.mean)

    @property
    def plateau(self) -> tuple[float, ...]:
        """Rates that are as good as the best, up to PLATEAU."""
        return tuple(r.lr for r in self.rungs if r.mean >= self.best.mean - PLATEAU)

    @property
    def inside(self) -> bool:
        """Whether the default is in the plateau."""
        return self.default in self.plateau

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> Curve:
        """Of what ``asdict`` gave; RecordError where it is something else."""
        try:
            rungs = tuple(Rung(**rung) for rung in data["rungs"])  # type: ignore[attr-defined]
            return cls(**{**data, "rungs": rungs})  # type: ignore[arg-type]
        except (KeyError, TypeError) as error:
            raise RecordError(f"not a learning-rate curve: {error}") from error


@dataclass(frozen=True)
class Question:
    """What to measure: rates and seeds of one submission on one task."""

    submission: Path
    task: str
    variant: str | None
    profile: str
    rates: tuple[float, ...]
    seeds: tuple[int, ...]
    steps: int | None = None

    def __post_init__(self) -> None:
        if len(set(self.rates)) < 2:
            raise UsageError(explain("--rates", list(self.rates), "two different rates or more"))
        if not self.seeds:
            raise UsageError(explain("--seeds", "none", "one seed or more"))
        task = get_task(self.task)
        variant = variant_of(task, self.profile, self.variant)
        metric = task.dataset(self.profile, variant, self.seeds[0]).metric
        if metric != "accuracy":  # a failure counts as 0, which is the best divergence
            raise UsageError(explain("--task", f"{task.name}, scored by {metric}", "accuracy"))

    @property
    def default(self) -> float:
        """The rate that the harness would use."""
        task = get_task(get_task(self.task).trains_on)
        plan = get_profile(self.profile).plan(task.name)
        return load(self.submission).train.get("lr", plan.budget.lr)

    def training(self, lr: float, seed: int) -> Training:
        """One point of the curve."""
        sizes = {"lr": lr} if self.steps is None else {"lr": lr, "steps": self.steps}
        return Training(self.submission, self.task, self.variant, self.profile, seed, sizes)


def measure(question: Question, place: Place) -> Curve:
    """Train at every rate and seed; trainings that are done already are taken from their records."""
    default = question.default
    rates = sorted({*question.rates, default})
    launchers = Launchers(resolve(place.device).kind, levels.resolve(place.isolate))
    try:
        rungs = [_rung(question, place, launchers, lr) for lr in rates]
    finally:
        launchers.close()
    task = get_task(question.task)
    variant = variant_of(task, question.profile, question.variant)
    return Curve(
        question.submission.stem, task.id, variant, question.profile, default, tuple(rungs)
    )


def table(curve: Curve) -> str:
    """The curve as people read it."""
    head = f"{curve.entry} on {curve.task} {curve.variant} ({curve.profile}), validation figure"
    lines = [head, "      lr    mean  by seed"]
    for rung in curve.rungs:
        marks = "*" * (rung.lr in curve.plateau) + " default" * (rung.lr == curve.default)
        seeds = " ".join(f"{value:.3f}" for value in rung.figures.values())
        lines.append(f"{rung.lr:8.1e}   {rung.mean:.3f}  {seeds}  {marks}")
    where = "inside" if curve.inside else "OUTSIDE"
    lines.append(
        f"{sparkline([rung.mean for rung in curve.rungs])}  * within {PLATEAU} of the best; "
        f"the default rate {curve.default:g} is {where} the plateau"
    )
    return "\n".join(lines)


def write(curve: Curve, path: Path) -> None:
    """Put a curve among others into a file, in place of an older one of the same case."""
    curves = [old for old in read(path) if _case(old) != _case(curve)] if path.is_file() else []
    rows = [asdict(each) for each in sorted([*curves, curve], key=_case)]
    path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> tuple[Curve, ...]:
    """Curves of a file that ``write`` made."""
    try:
        return tuple(map(Curve.from_data, json.loads(path.read_text(encoding="utf-8"))))
    except ValueError as error:
        raise RecordError(f"{path}: not a file of learning-rate curves: {error}") from error


def rates_of(text: str) -> tuple[float, ...]:
    """``1e-3,3e-3`` as numbers."""
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise UsageError(
            explain("--rates", text, "numbers with commas, such as 1e-3,3e-3")
        ) from error


def seeds_of(text: str) -> tuple[int, ...]:
    """``1,2`` as whole numbers."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdecimal() for part in parts):
        raise UsageError(explain("--seeds", text, "whole numbers with commas, such as 1,2"))
    return tuple(map(int, parts))


def _rung(question: Question, place: Place, launchers: Launchers, lr: float) -> Rung:
    records = {
        str(seed): run_training(question.training(lr, seed), place, launchers=launchers)
        for seed in question.seeds
    }
    return Rung(lr, {seed: _last(record) for seed, record in records.items()})


def _last(record: Record) -> float:
    """The last validation figure; a training that failed has learnt nothing."""
    seen: Sequence[float] = [p.accuracy for p in record.curve if p.accuracy is not None]
    return seen[-1] if seen else 0.0


def _case(curve: Curve) -> tuple[str, str, str, str]:
    return curve.entry, curve.task, curve.variant, curve.profile
