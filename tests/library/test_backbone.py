"""The stack around a mixer, its size, and what it says of a wrong shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from selectivbench.backbone import Backbone, ModelSpec, build, check_logits, count, fill_width, mix
from selectivbench.errors import SubmissionError
from selectivbench.profiles import ModelSize, get_profile

SIZE = ModelSize(32, 2, 2, block_budget=12 * 32**2)
SPEC = ModelSpec(
    d_model=32, n_layers=2, layer_index=0, max_length=9, n_heads=2, n_inputs=5, n_classes=3
)
X = torch.zeros(2, 4, 5)


class Answer(nn.Module):
    """A mixer that answers with a function of its input."""

    def __init__(self, answer: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, x: Tensor) -> Any:
        return self.answer(x)


def linear(width: int) -> Callable[[Any], nn.Module]:
    return lambda spec: nn.Sequential(
        nn.Linear(spec.d_model, width, bias=False), nn.Linear(width, spec.d_model, bias=False)
    )


@pytest.mark.parametrize("width", [1, 16, 48, 96, 180])
@pytest.mark.parametrize("profile", ["smoke", "lite"])
def test_every_block_has_the_budget_within_2_percent(profile: str, width: int) -> None:
    size = get_profile(profile).default_plan.model
    model = Backbone(linear(min(width, 5 * size.d_model)), spec_of(size), size)
    assert not model.oversize
    for block in model.blocks:
        assert count(block) == pytest.approx(size.block_budget, rel=0.02)


def spec_of(size: ModelSize) -> ModelSpec:
    return replace(SPEC, d_model=size.d_model, n_layers=size.n_layers, n_heads=size.n_heads)


def test_a_mixer_over_the_budget_is_oversize() -> None:
    model = Backbone(linear(1000), SPEC, SIZE)
    assert model.oversize
    assert model(X).shape == (2, 4, 3)


def test_without_a_budget_there_is_no_mlp() -> None:
    size = replace(SIZE, block_budget=0, post_norm=True)
    model = Backbone(linear(4), SPEC, size)
    assert fill_width(linear(4)(SPEC), size) == 0
    assert not model.oversize
    assert isinstance(model.norm, nn.Identity)


def test_pre_norm_mixers_see_normed_inputs() -> None:
    seen: list[Tensor] = []
    model = Backbone(lambda _: Answer(lambda x: (seen.append(x), x * 0)[1]), SPEC, SIZE)
    nn.init.normal_(model.encoder.weight, 0, 100)
    model(torch.rand(2, 4, 5))
    assert len(seen) == 2
    for x in seen:
        assert x.std(dim=-1).mean().item() == pytest.approx(1, abs=0.1)


def test_a_block_that_adds_nothing_is_the_identity() -> None:
    block: Any = Backbone(lambda _: Answer(lambda x: x * 0), SPEC, SIZE).blocks[0]
    x = torch.randn(2, 4, 32)
    assert not torch.equal(block(x), x)  # the MLP adds something
    nn.init.zeros_(block.mlp.down.weight)
    assert torch.equal(block(x), x)


def test_post_norm_normalises_after_the_residual() -> None:
    size = replace(SIZE, block_budget=0, post_norm=True)
    block = Backbone(lambda _: Answer(lambda x: x), SPEC, size).blocks[0]
    x = torch.randn(2, 4, 32) * 50
    assert torch.equal(block(x), block.norm(x + x))


def test_dropout_is_the_profiles() -> None:
    model = Backbone(linear(4), SPEC, replace(SIZE, dropout=0.5))
    x = torch.rand(2, 4, 5)
    assert not torch.equal(model(x), model(x))
    model.eval()
    assert torch.equal(model(x), model(x))


def test_each_layer_is_told_its_index_and_no_mixer_is_told_the_task() -> None:
    specs: list[Any] = []
    Backbone(lambda spec: (specs.append(spec), nn.Identity())[1], SPEC, SIZE)
    assert [spec.layer_index for spec in specs] == [0, 1]
    assert not hasattr(specs[0], "n_classes")
    assert (specs[0].d_model, specs[0].max_length, specs[0].n_heads) == (32, 9, 2)


def test_a_tuple_is_unwrapped() -> None:
    x = torch.rand(2, 4, 32)
    assert mix(Answer(lambda x: (x + 1, None, None)), x).equal(x + 1)


@pytest.mark.parametrize(
    ("answer", "got"),
    [
        (lambda x: x[:, :3], r"\(2, 3, 32\)"),
        (lambda x: x.transpose(0, 1), r"\(4, 2, 32\)"),
        (lambda x: x[..., 0], r"\(2, 4\)"),
        (lambda _: None, "'NoneType'"),
        (lambda x: [x], "'list'"),
        (lambda x: (None, x), "'NoneType'"),
        (lambda x: {"out": x}, "'dict'"),
    ],
)
def test_a_wrong_answer_of_a_mixer_says_got_and_wanted(answer: Any, got: str) -> None:
    words = rf"Mixer's output: got {got}, allowed: \(2, 4, 32\), the shape of its input"
    with pytest.raises(SubmissionError, match=words):
        Backbone(lambda _: Answer(answer), SPEC, SIZE)(X)


@pytest.mark.parametrize(
    ("logits", "got"),
    [
        (torch.zeros(2, 4, 4), r"\(2, 4, 4\)"),
        (torch.zeros(2, 12), r"\(2, 12\)"),
        (None, "'NoneType'"),
        (3.0, "'float'"),
    ],
)
def test_wrong_logits_say_got_and_wanted(logits: Any, got: str) -> None:
    with pytest.raises(SubmissionError, match=rf"got {got}, allowed: \(2, 4, 3\) \(B, T, n_clas"):
        check_logits(logits, 2, 4, 3)


def test_good_logits_pass_also_in_a_tuple() -> None:
    logits = torch.zeros(2, 4, 3)
    assert check_logits(logits, 2, 4, 3) is logits
    assert check_logits((logits, None), 2, 4, 3) is logits


def test_what_is_built() -> None:
    assert isinstance(build("mixer", linear(4), SPEC, SIZE), Backbone)
    model = build("model", lambda spec: nn.Linear(spec.n_inputs, spec.n_classes), SPEC, SIZE)
    assert count(model) == 5 * 3 + 3


@pytest.mark.parametrize(
    ("kind", "what"), [("mixer", r"Mixer\(spec\)"), ("model", r"Model\(spec\)")]
)
def test_what_is_no_module_is_refused(kind: str, what: str) -> None:
    factory: Any = lambda _: "module"  # noqa: E731
    with pytest.raises(SubmissionError, match=rf"{what}: got 'str', allowed: a torch\.nn\.Module"):
        build(kind, factory, SPEC, SIZE)


def test_shared_parameters_count_once_and_frozen_ones_not() -> None:
    shared = nn.Linear(3, 3)
    frozen = nn.Linear(5, 5).requires_grad_(False)
    assert count(nn.Sequential(shared, shared, frozen)) == 12


def test_a_mixers_own_initialisation_stays() -> None:
    def seven(spec: Any) -> nn.Module:
        module = nn.Linear(spec.d_model, spec.d_model)
        nn.init.constant_(module.weight, 7.0)
        return module

    model = Backbone(seven, SPEC, SIZE)
    assert all((block.mixer.weight == 7).all() for block in model.blocks)
