"""The one training loop."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from selectivbench.batch import IGNORE
from selectivbench.errors import SubmissionError
from selectivbench.training import TrainConfig, Trainer

RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(4, 6, 5)).astype(np.float32)
TARGETS = RNG.integers(0, 3, size=(4, 6)).astype(np.int32)


def trainer(model: nn.Module | None = None, **changes: Any) -> Trainer:
    torch.manual_seed(1)
    model = model or nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.3), nn.Tanh(), nn.Linear(8, 3))
    config = {"steps": 50, "lr": 1e-2, "warmup": 5, "clip": 1.0} | changes
    return Trainer(model, TrainConfig(**config), n_classes=3, device="cpu")


def weights(of: Trainer) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in of.parameters])


@pytest.mark.parametrize(
    ("warmup", "rates"),
    [
        (0, {0: 1.0, 50: 0.5, 99: 0.000247}),
        (10, {0: 0.1, 4: 0.5, 9: 1.0, 10: 1.0, 55: 0.5, 99: 0.000305}),
        (100, {0: 0.01, 99: 1.0}),
    ],
)
def test_the_rate_warms_up_and_falls(warmup: int, rates: dict[int, float]) -> None:
    config = TrainConfig(steps=100, lr=1.0, warmup=warmup, clip=1.0)
    assert {s: config.rate(s) for s in rates} == pytest.approx(rates, rel=1e-2)


@pytest.mark.parametrize("warmup", [0, 1, 7])
def test_the_rate_never_leaves_its_bounds(warmup: int) -> None:
    for steps in (1, 7, 8, 30):
        config = TrainConfig(steps, 0.3, warmup, 1.0)
        assert all(0 <= config.rate(s) <= 0.3 for s in range(steps))


def test_the_rate_reaches_the_optimiser() -> None:
    t = trainer()
    for step in range(7):
        t.step(INPUTS, TARGETS)
        assert t.optimiser.param_groups[0]["lr"] == t.config.rate(step)
    assert t.steps_done == 7


def test_training_lowers_the_loss() -> None:
    t = trainer()
    losses = []
    for _ in range(50):
        t.step(INPUTS, TARGETS)
        losses.append(t.mean_loss())
    assert losses[-1] < 0.9 * losses[0]


def test_two_trainings_with_one_seed_are_one() -> None:
    trained = []
    for peek in (False, True):
        t = trainer()
        for _ in range(5):
            t.step(INPUTS, TARGETS)
            if peek:  # predicting on the way takes nothing from the generator, dropout or not
                t.predict(INPUTS)
        trained.append(weights(t))
    assert torch.equal(*trained)


class Free(nn.Module):
    """Logits that are the parameters themselves, so that a gradient shows where it came from."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(4, 6, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        return self.logits


def test_ignored_steps_have_no_gradient() -> None:
    targets = TARGETS.copy()
    targets[:, ::2] = IGNORE
    t = trainer(Free())
    t.step(INPUTS, targets)
    moved = t.parameters[0].detach().abs().sum(-1) > 0
    assert torch.equal(moved, torch.from_numpy(targets != IGNORE))


def test_the_loss_is_the_mean_over_the_steps_that_count() -> None:
    targets = np.full_like(TARGETS, IGNORE)
    targets[0, 0] = 1
    t = trainer(Free())
    t.step(INPUTS, targets)
    assert t.mean_loss() == pytest.approx(math.log(3))


@pytest.mark.parametrize("clip", [1e-3, 1e-1])
def test_the_gradient_is_clipped(clip: float) -> None:
    t = trainer(Free(), clip=clip)
    with torch.no_grad():  # sure and wrong: the largest gradient that cross-entropy has
        t.parameters[0][..., 0] = 50.0
    t.step(INPUTS, np.ones_like(TARGETS))
    assert t.parameters[0].grad is not None
    assert float(t.parameters[0].grad.norm()) == pytest.approx(clip, rel=1e-3)


def test_gradients_of_one_step_do_not_reach_the_next() -> None:
    t = trainer(Free())
    gradients = []
    for _ in range(2):
        with torch.no_grad():
            t.parameters[0].zero_()
        t.step(INPUTS, TARGETS)
        assert t.parameters[0].grad is not None
        gradients.append(t.parameters[0].grad.clone())
    assert torch.equal(*gradients)


def test_mean_loss_starts_anew_and_is_nan_of_nothing() -> None:
    t = trainer()
    assert math.isnan(t.mean_loss())
    t.step(INPUTS, TARGETS)
    assert t.mean_loss() > 0
    assert math.isnan(t.mean_loss())


def test_predictions_are_in_evaluation_mode_and_training_is_not() -> None:
    modes = []
    model = nn.Sequential(nn.Linear(5, 3), nn.Dropout(0.5))
    model.register_forward_hook(lambda module, *_: modes.append(module.training))
    t = trainer(model)
    t.step(INPUTS, TARGETS)
    first = t.predict(INPUTS)
    assert (first == t.predict(INPUTS)).all()
    t.step(INPUTS, TARGETS)
    assert modes == [True, False, False, True]


def test_predictions_are_float32_of_the_promised_shape() -> None:
    logits = trainer(nn.Linear(5, 3).double().float()).predict(INPUTS)
    assert (logits.shape, logits.dtype) == ((4, 6, 3), np.float32)


def test_predicting_changes_nothing() -> None:
    t = trainer()
    before = weights(t)
    t.predict(INPUTS)
    assert torch.equal(weights(t), before)
    assert t.steps_done == 0


def test_a_wrong_shape_is_said() -> None:
    with pytest.raises(SubmissionError, match=r"got \(4, 6, 2\), allowed: \(4, 6, 3\)"):
        trainer(nn.Linear(5, 2)).step(INPUTS, TARGETS)


def test_frozen_parameters_stay() -> None:
    model = nn.Sequential(nn.Linear(5, 5).requires_grad_(False), nn.Linear(5, 3))
    t = trainer(model)
    frozen = model[0].weight.clone()  # type: ignore[union-attr, operator]
    t.step(INPUTS, TARGETS)
    assert torch.equal(model[0].weight, frozen)  # type: ignore[arg-type]
