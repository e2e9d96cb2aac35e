"""The four reference files: equal in size, causal, and each sequence on its own."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from selectivbench.backbone import Backbone, ModelSpec, count
from selectivbench.profiles import get_profile
from selectivbench.submission import load
from selectivbench.tasks import TASKS

FOLDER = Path(__file__).parents[2] / "submissions"
REFERENCES = ("gru", "lstm", "s4d", "transformer")
T = 13


def module_of(name: str) -> ModuleType:
    spec = spec_from_file_location(f"reference_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def spec_of(profile: str) -> Any:
    size = get_profile(profile).default_plan.model
    return ModelSpec(size.d_model, size.n_layers, 0, T, size.n_heads, n_inputs=6, n_classes=4)


def network(name: str, profile: str = "smoke") -> Any:
    torch.manual_seed(0)
    size = get_profile(profile).default_plan.model
    return Backbone(module_of(name).Mixer, spec_of(profile), size).eval()


@pytest.mark.parametrize("name", REFERENCES)
def test_a_reference_is_read_and_worth_reading(name: str) -> None:
    submission = load(FOLDER / f"{name}.py")
    assert submission.kind == "mixer"
    assert submission.name.lower().startswith(name)
    assert submission.paper.startswith("https://")
    assert submission.authors
    assert submission.tags
    assert set(submission.expected_fail) <= {task.id for task in TASKS}
    assert submission.source.startswith('"""')
    assert len(submission.source.splitlines()) < 60


def test_only_the_time_invariant_one_is_expected_to_fail() -> None:
    expected = {name: load(FOLDER / f"{name}.py").expected_fail for name in REFERENCES}
    assert {n: ids for n, ids in expected.items() if ids} == {"s4d": ("selective_copy-v1",)}


@pytest.mark.parametrize("profile", ["smoke", "lite"])
def test_all_have_one_size_within_2_percent(profile: str) -> None:
    size = get_profile(profile).default_plan.model
    models = {name: network(name, profile) for name in REFERENCES}
    for model in models.values():
        assert not model.oversize
        for block in model.blocks:
            assert count(block) == pytest.approx(size.block_budget, rel=0.02)
    counts = [count(model) for model in models.values()]
    assert max(counts) <= 1.02 * min(counts)


@pytest.mark.parametrize("profile", ["smoke", "lite"])
@pytest.mark.parametrize("name", REFERENCES)
def test_state_size_is_a_whole_number(name: str, profile: str) -> None:
    spec = spec_of(profile)
    size = module_of(name).state_size(spec)
    assert type(size) is int
    assert size >= spec.d_model


@pytest.mark.parametrize("name", REFERENCES)
def test_later_inputs_change_no_earlier_output(name: str) -> None:
    model = network(name)
    x = torch.randn(2, T, 6)
    for t in (1, T // 2, T - 1):
        other = x.clone()
        other[:, t:] = torch.randn(2, T - t, 6)
        with torch.no_grad():
            a, b = model(x), model(other)
        torch.testing.assert_close(a[:, :t], b[:, :t], atol=1e-5, rtol=1e-4)
        assert not torch.allclose(a[:, t:], b[:, t:], atol=1e-3)


@pytest.mark.parametrize("name", REFERENCES)
def test_earlier_inputs_reach_later_outputs(name: str) -> None:
    model = network(name)
    x = torch.randn(2, T, 6, requires_grad=True)
    model(x)[:, -1].sum().backward()
    assert x.grad is not None
    assert (x.grad[:, 0].abs() > 0).any()


@pytest.mark.parametrize("name", REFERENCES)
def test_a_sequence_does_not_see_its_neighbours(name: str) -> None:
    model = network(name)
    x = torch.randn(4, T, 6)
    with torch.no_grad():
        together = model(x)
        alone = torch.cat([model(row[None]) for row in x])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", REFERENCES)
def test_shorter_sequences_than_the_longest_work(name: str) -> None:
    model = network(name)
    x = torch.randn(2, T, 6)
    with torch.no_grad():
        torch.testing.assert_close(model(x[:, :5]), model(x)[:, :5], atol=1e-5, rtol=1e-4)
        assert model(x[:, :1]).shape == (2, 1, 4)


@pytest.mark.parametrize("name", REFERENCES)
def test_every_parameter_learns(name: str) -> None:
    model = network(name).train()
    model(torch.randn(2, T, 6)).square().sum().backward()
    idle = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert not idle
