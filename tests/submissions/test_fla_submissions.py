"""The submissions that are built on fla's layers: sizes follow the spec, states are as declared."""

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

FOLDER = Path(__file__).parents[2] / "submissions"
NAMES = [
    "delta_net", "forgetting_transformer", "gated_delta_net", "gated_delta_product", "gla",
    "hgrn2", "kda", "linear_attention", "mamba", "mamba2", "mesa_net", "retnet", "rwkv7",
]  # fmt: skip
LITERALS = {"NAME", "PAPER", "AUTHORS", "TAGS"}


@dataclass(frozen=True)
class Spec:
    d_model: int = 48
    n_layers: int = 2
    layer_index: int = 0
    max_length: int = 37
    n_heads: int = 3


@pytest.fixture(scope="module", autouse=True)
def _on_cpu() -> None:
    fla_cpu.enable()


def _load(name: str) -> ModuleType:
    spec = spec_from_file_location(f"submission_{name}", FOLDER / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _output(module: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    y = module(x)
    return y[0] if isinstance(y, tuple) else y


@pytest.mark.parametrize("name", NAMES)
def test_page(name: str) -> None:
    source = (FOLDER / f"{name}.py").read_text()
    tree = ast.parse(source)
    literals = {
        target.id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in LITERALS
    }
    assert set(literals) == LITERALS
    assert literals["PAPER"].startswith("https://arxiv.org/abs/")
    assert len(source.splitlines()) < 60
    assert len(ast.get_docstring(tree) or "") > 300


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("d_model", "n_heads", "length"), [(48, 3, 70), (64, 2, 5)])
def test_trains(name: str, d_model: int, n_heads: int, length: int) -> None:
    torch.manual_seed(0)
    spec = Spec(d_model=d_model, n_heads=n_heads)
    module = _load(name).Mixer(spec)
    x = torch.randn(2, length, d_model, requires_grad=True)
    y = _output(module, x)
    assert y.shape == x.shape
    y.square().sum().backward()
    assert torch.isfinite(x.grad).all()
    assert [n for n, p in module.named_parameters() if p.grad is None] == []


@pytest.mark.parametrize("name", NAMES)
def test_fits_a_block_of_the_lite_budget(name: str) -> None:
    module = _load(name).Mixer(Spec())
    assert sum(p.numel() for p in module.parameters()) < 9 * 48**2


@pytest.mark.parametrize("name", NAMES)
def test_later_layer(name: str) -> None:
    module = _load(name).Mixer(Spec(layer_index=1))
    assert torch.isfinite(_output(module, torch.randn(1, 4, 48))).all()


def _floats(state: Any) -> int:
    if isinstance(state, torch.Tensor):
        return state.numel()
    if isinstance(state, dict):
        return sum(_floats(v) for v in state.values())
    return sum(_floats(v) for v in state) if isinstance(state, (tuple, list)) else 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("batch", [1, 3])
def test_state_size_is_that_of_the_real_cache(name: str, batch: int) -> None:
    from fla.models.utils import Cache

    submission, spec = _load(name), Spec()
    module, cache = submission.Mixer(spec).eval(), Cache()
    with torch.no_grad():
        module(torch.randn(batch, spec.max_length, 48), past_key_values=cache, use_cache=True)
    assert _floats(cache[0]) == batch * submission.state_size(spec)
