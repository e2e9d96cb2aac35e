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
from selectivbench.training import TrainConfig, Trainer, out_of_memory

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


class Greedy(nn.Module):
    """Runs out of memory above some number of sequences, on its way forward, and counts them."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self.seen: list[int] = []
        self.layers = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(len(x))
        y: torch.Tensor = self.layers(x)
        if len(x) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
        return y


UNEVEN = TARGETS.copy()
UNEVEN[0, 1:] = IGNORE
UNEVEN[3] = IGNORE  # a piece without any scored step


@pytest.mark.parametrize("targets", [TARGETS, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize(("most", "pieces"), [(4, 1), (3, 2), (2, 2), (1, 4)])
def test_out_of_memory_splits_the_batch_and_leaves_the_update(
    targets: Any, most: int, pieces: int
) -> None:
    whole, split = trainer(Greedy(9), clip=0.05), trainer(Greedy(most), clip=0.05)
    for t in (whole, split):
        torch.manual_seed(3)
        for layer in t.model.layers:  # type: ignore[union-attr]
            if isinstance(layer, nn.Linear):
                layer.reset_parameters()
    for _ in range(5):
        whole.step(INPUTS, targets)
        split.step(INPUTS, targets)
    assert (whole.pieces, split.pieces) == (1, pieces)
    torch.testing.assert_close(weights(split), weights(whole), rtol=1e-6, atol=1e-7)
    assert split.mean_loss() == pytest.approx(whole.mean_loss(), rel=1e-6)
    assert split.model.seen[-pieces:] == [4 // pieces] * pieces or targets is UNEVEN


def test_pieces_that_were_done_before_memory_ran_out_do_not_count_twice() -> None:
    class Late(Greedy):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = super().forward(x)
            if len(self.seen) == 2:  # the second of two pieces
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return y

    whole, late = trainer(Greedy(9), clip=1e9), trainer(Late(2), clip=1e9)
    late.model.load_state_dict(whole.model.state_dict())
    late.pieces = 2
    whole.step(INPUTS, TARGETS)
    late.step(INPUTS, TARGETS)
    assert late.pieces == 4
    for one, other in zip(whole.parameters, late.parameters, strict=True):
        assert one.grad is not None
        assert other.grad is not None
        torch.testing.assert_close(other.grad, one.grad, rtol=1e-5, atol=1e-7)


def test_one_sequence_that_does_not_fit_is_out_of_memory() -> None:
    t = trainer(Greedy(0))
    with pytest.raises(torch.OutOfMemoryError):
        t.step(INPUTS, TARGETS)
    assert t.model.seen == [4, 2, 1]


def test_a_prediction_that_does_not_fit_is_made_in_pieces() -> None:
    whole, split = trainer(Greedy(9)), trainer(Greedy(2))
    split.model.load_state_dict(whole.model.state_dict())
    for rows in (4, 1, 4):
        logits = split.predict(INPUTS[:rows])
        np.testing.assert_allclose(logits, whole.predict(INPUTS[:rows]), rtol=1e-5, atol=1e-6)
    assert split.model.seen == [4, 2, 2, 1, 2, 2]  # and is not tried whole again
    assert split.pieces == 1  # of a training step, which may fit
    with pytest.raises(torch.OutOfMemoryError):
        split.predict_at_once(INPUTS)


def test_other_errors_are_not_tried_again() -> None:
    class Broken(nn.Linear):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
            Broken.calls += 1
            raise RuntimeError("shapes do not fit")

    with pytest.raises(RuntimeError, match="shapes"):
        trainer(Broken(5, 3)).step(INPUTS, TARGETS)
    assert Broken.calls == 1


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried ..."), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
    ],
)
def test_what_is_out_of_memory(error: Exception, is_one: bool) -> None:
    assert out_of_memory(error) == is_one


def test_a_training_goes_on_from_a_checkpoint_as_if_it_never_stopped() -> None:
    """With dropout, moments, schedule and a buffer that changes in training."""

    def fresh() -> Trainer:
        layers = (nn.Linear(5, 8), nn.Dropout(0.3), nn.Flatten(0, 1), nn.BatchNorm1d(8))
        return trainer(nn.Sequential(*layers, nn.Unflatten(0, (4, 6)), nn.Linear(8, 3)))

    straight = fresh()
    for _ in range(4):
        straight.step(INPUTS, TARGETS)
    straight.mean_loss()
    kept = straight.checkpoint()
    for _ in range(4):
        straight.step(INPUTS, TARGETS)
    resumed = fresh()
    resumed.resume(kept)
    assert resumed.steps_done == 4
    for _ in range(4):
        resumed.step(INPUTS, TARGETS)
    assert torch.equal(weights(resumed), weights(straight))
    assert resumed.mean_loss() == straight.mean_loss()
    assert (resumed.predict(INPUTS) == straight.predict(INPUTS)).all()


def test_a_checkpoint_changes_nothing() -> None:
    trained = []
    for peek in (False, True):
        t = trainer()
        for _ in range(5):
            t.step(INPUTS, TARGETS)
            if peek:
                t.checkpoint()
        trained.append(weights(t))
    assert torch.equal(*trained)


def test_in_bfloat16_everything_is_and_logits_are_float32() -> None:
    torch.manual_seed(1)
    config = TrainConfig(steps=50, lr=1e-2, warmup=5, clip=1.0)
    t = Trainer(nn.Linear(5, 3), config, n_classes=3, device="cpu", dtype="bfloat16")
    for _ in range(20):
        t.step(INPUTS, TARGETS)
    assert {p.dtype for p in t.parameters} == {torch.bfloat16}
    assert t.predict(INPUTS).dtype == np.float32
    assert math.isfinite(t.mean_loss())


def test_under_autocast_products_are_bfloat16_and_weights_and_losses_float32() -> None:
    class Watched(nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = super().forward(x)
            self.given = y.dtype
            return y

    def built(precision: str | None) -> Trainer:
        torch.manual_seed(1)
        return trainer(Watched(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)), precision=precision)

    wide, narrow = built(None), built("bf16")
    losses = []
    for t in (wide, narrow):
        for _ in range(30):
            t.step(INPUTS, TARGETS)
        losses.append(t.mean_loss())
    assert (wide.model.given, narrow.model.given) == (torch.float32, torch.bfloat16)
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=2e-2)
    assert {p.dtype for p in narrow.parameters} == {torch.float32}
    assert {p.grad.dtype for p in narrow.parameters if p.grad is not None} == {torch.float32}
    assert narrow.predict(INPUTS).dtype == np.float32
    assert narrow.model.given is torch.bfloat16
    assert np.abs(narrow.predict(INPUTS) - wide.predict(INPUTS)).max() < 0.05
