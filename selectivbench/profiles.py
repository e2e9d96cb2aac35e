"""Smoke, lite and paper: model sizes and training budgets as data, equal for every entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

from selectivbench.errors import UsageError, explain, near


@dataclass(frozen=True)
class ModelSize:
    """The stack around a mixer.

    block_budget: parameters of one block, filled up by its MLP; 0 for a block without MLP.
    post_norm: layer norm after the residual (the reference's stack) instead of before the mixer.
    d_state: a hint for mixers with a state of free size; None leaves it to the submission.
    dtype: of all parameters and activations, bfloat16 or None for float32.
    """

    d_model: int
    n_layers: int
    n_heads: int
    block_budget: int
    dropout: float = 0.0
    post_norm: bool = False
    d_state: int | None = None
    dtype: str | None = None


@dataclass(frozen=True)
class Budget:
    """One training: Adam, linear warm-up then cosine to 0, gradient norm clipped.

    lr is the default that a submission's TRAIN may replace; deadline is in seconds for the whole fit.
    validations: how often, evenly spread, the validation split is predicted for the learning curve.
    samples: training samples that are used, the first ones; None for all.
    held_out: samples of each other split that are used, the first ones, and in a cut budget fewer of
    those longer than training's; None for all.
    """

    steps: int
    batch_size: int
    lr: float
    warmup: int
    validations: int
    deadline: float
    clip: float = 1.0
    samples: int | None = None
    held_out: int | None = None


@dataclass(frozen=True)
class Plan:
    """What one training of one task costs: the model around the mixer, and the budget."""

    model: ModelSize
    budget: Budget

    def facts(self) -> dict[str, dict[str, Any]]:
        """As JSON-able data without what is not set.

        A field that comes later, with None for its default, thus leaves every older digest alone.
        """
        parts = {"model": asdict(self.model), "budget": asdict(self.budget)}
        return {
            name: {field: value for field, value in part.items() if value is not None}
            for name, part in parts.items()
        }


@dataclass(frozen=True)
class EarlyStop:
    """A training may end once so many validations in a row scored within ``within`` of 1.

    Equal for all entries, and blind to the test data: it looks at validation scores alone.

    >>> [EarlyStop(0.01, 2).holds(scores) for scores in ([0.995], [0.995, 1.0], [0.995, 0.9, 1.0])]
    [False, True, False]
    """

    within: float
    validations: int

    def holds(self, scores: Sequence[float]) -> bool:
        """Whether the training is over after these validations."""
        last = scores[-self.validations :]
        return len(last) == self.validations and min(last) >= 1 - self.within


@dataclass(frozen=True)
class TimingSize:
    """What ``--selectiv-timing`` measures: each length in batches of about ``tokens`` tokens.

    decoders: sequences that are decoded at once. rounds, least: how often, and how many seconds each
    round lasts at least.
    """

    lengths: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048)
    tokens: int = 8_192
    decoders: int = 8
    rounds: int = 9
    least: float = 0.05

    def batch(self, what: str, length: int) -> int:
        """Sequences of one batch."""
        return self.decoders if what == "decode" else max(1, self.tokens // length)


@dataclass(frozen=True)
class Profile:
    """A named set of plans, by task name; tasks that are not listed have ``default_plan``."""

    name: str
    seeds: tuple[int, ...]
    default_tasks: tuple[str, ...]
    default_plan: Plan
    plans: Mapping[str, Plan] = field(default_factory=lambda: MappingProxyType({}))
    minutes: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Measured CPU minutes of one training by task name: submissions/lstm.py, one core."""
    conformance: bool = False
    """Verdict by conformance (loss falls, logits finite), not by a bar."""
    apart: bool = False
    """Predict in a second process, which gets the trained state and no training data: nothing can
    be learnt from test inputs, and nothing lives on outside the state."""
    rehearsal: int | None = None
    """Held-out samples for each step of a cut budget, so that a rehearsal costs what its steps cost;
    None for all."""
    own_dtype: bool = False
    """The dtype that a submission's TRAIN declares holds on CUDA: the published runs differ in it."""
    timing: TimingSize = TimingSize()
    early: EarlyStop | None = None
    """When a training may end before its budget does; part of a record's budget where there is one."""

    def plan(self, task: str, steps: int | None = None) -> Plan:
        """The plan of a task name; ``steps`` cuts the budget (its warm-up is cut along)."""
        plan = self.plans.get(task, self.default_plan)
        if steps is None:
            return plan
        if not 1 <= steps <= plan.budget.steps:
            allowed = f"1 to {plan.budget.steps}, the budget of {task or 'a task'} in {self.name}"
            raise UsageError(explain("steps", steps, allowed))
        warmup = min(plan.budget.warmup, steps // 2)
        validations = min(plan.budget.validations, steps)
        held_out = self.rehearsal and steps * self.rehearsal
        cut = replace(
            plan.budget, steps=steps, warmup=warmup, validations=validations, held_out=held_out
        )
        return replace(plan, budget=cut)


def _square(d_model: int, n_layers: int, n_heads: int) -> ModelSize:
    """Blocks of 12 d² parameters, as a transformer's with its 4x MLP."""
    return ModelSize(d_model, n_layers, n_heads, block_budget=12 * d_model**2)


_CONFORMANCE_TASKS = ("selective_copy", "memorization")
_DEFAULT_TASKS = (
    "selective_copy",
    "noisy_gaps",
    "gap_extrapolation",
    "distractors",
    "memorization",
)

_SMOKE = Plan(_square(32, 2, 2), Budget(20, 32, 1e-2, 2, validations=2, deadline=60))

_LITE = Plan(_square(48, 2, 3), Budget(700, 64, 1e-2, 50, validations=4, deadline=1_200))
_LITE_COPY = Plan(_square(48, 2, 3), Budget(1_200, 64, 3e-3, 50, validations=6, deadline=1_200))

# As published (SelectivBench, one configuration of its grids; sweeps have the others): the best of a
# sweep's rates and warm-ups is chosen on validation data. Sequences are seen once, 64 at a time, and
# validated every 5,000. Distractors ran with the smaller state.
_PAPER = Plan(
    ModelSize(256, 8, 4, block_budget=0, dropout=0.2, post_norm=True),
    Budget(3_125, 64, 1e-3, 476, validations=40, deadline=86_400),
)
_PAPER_DISTRACTORS = replace(_PAPER, model=replace(_PAPER.model, d_state=64))
_PAPER_COPY = Plan(
    _square(48, 2, 3), Budget(2_048, 128, 3e-3, 100, validations=32, deadline=86_400)
)

_LITE_MINUTES = {"selective_copy": 0.7, "noisy_gaps": 0.8, "distractors": 0.3, "memorization": 0.4}

PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        "smoke": Profile(
            "smoke",
            (1,),
            _CONFORMANCE_TASKS,
            _SMOKE,
            conformance=True,
            timing=TimingSize((16, 32, 64), tokens=256, decoders=2, rounds=3, least=0.001),
        ),
        "lite": Profile(
            "lite",
            (1, 2, 3),
            _DEFAULT_TASKS,
            _LITE,
            MappingProxyType({"selective_copy": _LITE_COPY}),
            minutes=MappingProxyType(_LITE_MINUTES),
            apart=True,
        ),
        "paper": Profile(
            "paper",
            (1, 2, 3, 4),
            _DEFAULT_TASKS,
            _PAPER,
            MappingProxyType({"selective_copy": _PAPER_COPY, "distractors": _PAPER_DISTRACTORS}),
            apart=True,
            rehearsal=4,
            own_dtype=True,
            timing=TimingSize(tuple(64 << i for i in range(9)), tokens=32_768),
            early=EarlyStop(within=0.002, validations=3),
        ),
    }
)


def get_profile(name: str) -> Profile:
    """The profile of a name; an unknown name is a UsageError with the near one."""
    if name not in PROFILES:
        raise UsageError(explain("profile", name, near(name, PROFILES)))
    return PROFILES[name]
