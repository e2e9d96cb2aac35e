"""What is repeated when a layer is timed, in this process."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from selectivbench.backbone import Backbone, ModelSpec
from selectivbench.profiles import ModelSize
from selectivbench.times import WHAT
from selectivbench.workload import (
    CannotDecode,
    Load,
    decoder_of,
    timed_layer,
    workload,
)

WIDTH = 8


class Running(nn.Module):
    """The mean of all steps so far; ``step`` goes on from (sum, count)."""

    def __init__(self, error: float = 0.0) -> None:
        super().__init__()
        self.scale, self.error = nn.Parameter(torch.ones(WIDTH)), error
        self.seen: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x.shape[1])
        return self.scale * x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None]

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        total, count = (0.0, 0) if state is None else state
        sums = total + x.cumsum(1)
        steps = torch.arange(count + 1, count + 1 + x.shape[1])[:, None]
        return self.scale * sums / steps + self.error, (sums[:, -1:], count + x.shape[1])


class Lone(nn.Module):
    """An LSTM and nothing else; ``twist`` changes what the forward pass makes of it."""

    def __init__(self, twist: float = 1.0) -> None:
        super().__init__()
        self.lstm, self.twist = nn.LSTM(WIDTH, WIDTH, batch_first=True), twist

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.lstm(x)[0] * self.twist
        return y


def load(what: Any, length: int = 16, batch: int = 3, precision: str | None = None) -> Load:
    return Load(what, length, batch, WIDTH, precision)


def test_the_layer_is_taken_out_of_its_backbone() -> None:
    spec, size = ModelSpec(16, 2, 0, 5, 1, 4, 3), ModelSize(16, 2, 1, block_budget=0)
    model = Backbone(lambda spec: nn.Linear(spec.d_model, spec.d_model), spec, size)
    assert timed_layer(model) is model.blocks[0].mixer
    whole = nn.Linear(4, 3)
    assert timed_layer(whole) is whole


def test_a_training_step_has_gradients_and_changes_no_parameter() -> None:
    layer = Running()
    todo = workload(layer, load("train"), "cpu")
    passed: list[Tensor] = []
    layer.scale.register_hook(passed.append)  # type: ignore[no-untyped-call]
    for _ in range(3):
        todo.run()
    assert len(passed) == 3
    assert all(float(gradient.abs().sum()) > 0 for gradient in passed)
    assert torch.equal(layer.scale, torch.ones(WIDTH))
    assert layer.seen == [16, 16, 16]
    assert layer.training


def test_a_layer_without_parameters_can_be_trained_for_the_clock() -> None:
    workload(nn.Identity(), load("train"), "cpu").run()


def test_a_forward_pass_has_no_gradient() -> None:
    layer = Running()
    graphs: list[bool] = []
    layer.register_forward_hook(lambda *args: graphs.append(args[2].requires_grad))
    workload(layer, load("forward"), "cpu").run()
    assert graphs == [False]
    assert not layer.training


class Projected(nn.Linear):
    """A layer of matrix products, which autocast does in bfloat16; it goes on from nothing."""

    def __init__(self, twist: float = 1.0) -> None:
        super().__init__(WIDTH, WIDTH)
        self.twist, self.types = twist, set[torch.dtype]()

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        self.types.add(y.dtype)
        return y

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self.twist * self(x), state


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize(("precision", "type_"), [(None, torch.float32), ("bf16", torch.bfloat16)])
def test_the_layer_computes_in_the_precision_that_was_asked_for(
    what: str, precision: str | None, type_: torch.dtype
) -> None:
    layer = Projected()
    todo = workload(layer, load(what, precision=precision), "cpu")
    todo.refill(2)
    todo.run()
    assert layer.types == {type_}
    assert layer.weight.dtype == torch.float32


def test_a_decoder_may_round_as_its_precision_does_and_no_more() -> None:
    slightly = Projected(twist=1.01).eval()
    decoder_of(slightly, load("decode", precision="bf16"), "cpu")
    with pytest.raises(CannotDecode, match="from those of the forward pass"):
        decoder_of(slightly, load("decode"), "cpu")
    with pytest.raises(CannotDecode, match="from those of the forward pass"):
        decoder_of(Projected(twist=1.1).eval(), load("decode", precision="bf16"), "cpu")


def test_decoding_goes_from_just_before_the_length_to_just_after() -> None:
    layer = Running()
    todo = workload(layer, load("decode"), "cpu")
    todo.refill(6)
    assert todo._state[1] == 13  # type: ignore[attr-defined]
    for _ in range(6):
        todo.run()
    assert todo._state[1] == 19  # type: ignore[attr-defined]
    assert todo.state_bytes == WIDTH * 4  # of one sequence of three


@pytest.mark.parametrize("layer", [Running(), Lone(), nn.LSTM(WIDTH, WIDTH, batch_first=True)])
def test_decoders_that_are_right(layer: nn.Module) -> None:
    if isinstance(layer, nn.LSTM):  # itself no mixer: it has no module inside
        layer = nn.Sequential(layer)
        layer.forward = lambda x: layer[0](x)[0]  # type: ignore[method-assign]
    decoder = decoder_of(layer.eval(), load("decode"), "cpu")
    y, state = decoder(torch.randn(2, 5, WIDTH), None)
    assert y.shape == (2, 5, WIDTH)
    assert decoder(torch.randn(2, 1, WIDTH), state)[0].shape == (2, 1, WIDTH)


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (nn.Linear(WIDTH, WIDTH), "no step"),
        (nn.Sequential(nn.LSTM(WIDTH, WIDTH), nn.Identity()), "no step"),
        (Running(error=0.1), "from those of the forward pass"),
        (Lone(twist=1.5), "from those of the forward pass"),
    ],
)
def test_decoders_that_are_none(layer: nn.Module, reason: str) -> None:
    with pytest.raises(CannotDecode, match=reason):
        decoder_of(layer.eval(), load("decode"), "cpu")


def test_a_decoder_that_raises_says_what() -> None:
    def broken(*_: Any) -> Any:
        raise KeyError("cache")

    layer = Running()
    layer.step = broken  # type: ignore[method-assign]
    with pytest.raises(CannotDecode, match="raised KeyError"):
        decoder_of(layer, load("decode"), "cpu")
