"""The seven configurations of the published runs, in ``submissions/paper``."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from selectivbench import fla_cpu
from selectivbench.submission import find_files, load

ALL = Path(__file__).parents[2] / "submissions"
FOLDER = ALL / "paper"
RECURRENT = ("delta_net", "gated_delta_net", "gated_delta_product", "gla", "mamba", "mamba2")
NAMES = (*RECURRENT, "transformer")
IN_BFLOAT16 = ("delta_net", "gated_delta_net", "gated_delta_product")


@dataclass(frozen=True)
class Spec:
    d_model: int = 64
    n_layers: int = 8
    layer_index: int = 0
    max_length: int = 37
    n_heads: int = 4
    d_state: int | None = None


@pytest.fixture(scope="module", autouse=True)
def _on_cpu() -> None:
    fla_cpu.enable()


def module_of(name: str) -> ModuleType:
    spec = spec_from_file_location(f"published_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def output(module: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    y = module(x)
    return y[0] if isinstance(y, tuple) else y


def test_the_folder_is_not_collected_with_the_one_above() -> None:
    assert {file.parent for file in find_files([ALL])} == {ALL}
    assert tuple(file.stem for file in find_files([FOLDER])) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_page(name: str) -> None:
    submission = load(FOLDER / f"{name}.py")
    assert submission.name.endswith("(published)")
    assert "published" in submission.tags
    assert submission.dtype == ("bfloat16" if name in IN_BFLOAT16 else None)
    assert not submission.train  # rate and warm-up are chosen on validation data
    assert len(submission.source.splitlines()) <= 60
    assert len(ast.get_docstring(ast.parse(submission.source)) or "") > 200


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("d_model", "n_heads"), [(64, 4), (162, 2)])
def test_it_trains_at_any_published_shape_of_head(name: str, d_model: int, n_heads: int) -> None:
    """162 in two heads of 81, as 648 in eight."""
    torch.manual_seed(0)
    module = module_of(name).Mixer(Spec(d_model=d_model, n_heads=n_heads))
    x = torch.randn(2, 11, d_model, requires_grad=True)
    y = output(module, x)
    assert y.shape == x.shape
    y.square().sum().backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
    assert [n for n, p in module.named_parameters() if p.grad is None] == []


def floats(state: Any) -> int:
    if isinstance(state, torch.Tensor):
        return state.numel()
    if isinstance(state, dict):
        return sum(floats(v) for v in state.values())
    return sum(floats(v) for v in state) if isinstance(state, (tuple, list)) else 0


@pytest.mark.parametrize("name", RECURRENT)
@pytest.mark.parametrize("d_state", [None, 32])
def test_state_size_is_that_of_the_real_cache(name: str, d_state: int | None) -> None:
    from fla.models.utils import Cache

    submission, spec = module_of(name), Spec(d_state=d_state)
    module, cache = submission.Mixer(spec).eval(), Cache()
    with torch.no_grad():
        module(torch.randn(1, spec.max_length, 64), past_key_values=cache, use_cache=True)
    assert floats(cache[0]) == submission.state_size(spec)


@pytest.mark.parametrize(("name", "own"), [("mamba", 64), ("mamba2", 128)])
def test_the_state_is_as_published_where_none_is_given(name: str, own: int) -> None:
    assert module_of(name).Mixer(Spec()).ssm_state_size == own
    assert module_of(name).Mixer(Spec(d_state=32)).ssm_state_size == 32


def test_the_transformer_is_causal_and_four_times_as_wide() -> None:
    torch.manual_seed(0)
    module = module_of("transformer").Mixer(Spec())
    assert module.gate.out_features == module.up.out_features == 4 * 64
    x = torch.randn(2, 13, 64)
    other = x.clone()
    other[:, 6:] = torch.randn(2, 7, 64)
    with torch.no_grad():
        a, b = module(x), module(other)
    torch.testing.assert_close(a[:, :6], b[:, :6])
    assert not torch.allclose(a[:, 6:], b[:, 6:], atol=1e-3)


def test_positions_turn_with_base_1000() -> None:
    module = module_of("transformer").Mixer(Spec())
    expected = 5 * 1_000 ** -(torch.arange(8) / 8)
    torch.testing.assert_close(torch.atan2(module.sin, module.cos)[5] % 6.283185307, expected)
