"""Under autocast every layer sees bfloat16 and gives what it gives in float32, nearly."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from selectivbench import fla_cpu
from selectivbench.backbone import Backbone, ModelSpec
from selectivbench.profiles import get_profile
from selectivbench.training import TrainConfig, Trainer

FILES = sorted((Path(__file__).parents[2] / "submissions").glob("*.py"))
RNG = np.random.default_rng(0)
STEPS, INPUTS, CLASSES = 37, 6, 4
X = RNG.normal(size=(4, STEPS, INPUTS)).astype(np.float32)
Y = RNG.integers(0, CLASSES, (4, STEPS)).astype(np.int32)


def trainer(file: Path, precision: str | None) -> Trainer:
    spec = spec_from_file_location(f"under_autocast_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    size = get_profile("smoke").default_plan.model
    told = ModelSpec(size.d_model, size.n_layers, 0, STEPS, size.n_heads, INPUTS, CLASSES)
    torch.manual_seed(0)
    model: nn.Module = Backbone(module.Mixer, told, size)
    return Trainer(model, TrainConfig(20, 1e-3, 2, 1e9, precision), CLASSES, "cpu")


def gradient(of: Trainer) -> Tensor:
    return torch.cat([p.grad.flatten() for p in of.parameters if p.grad is not None])


FAR, ALONG, LONG = {"mesa_net": 0.15}, {"mesa_net": 0.9}, {"mesa_net": 0.3}
"""How far logits are apart, relative to the largest; of gradients, the cosine and how their lengths
differ. MesaNet solves a linear system at every step, which magnifies the rounding of its keys: rounding
nothing but its projections, all else in float32, shortens the gradient by a fifteenth."""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_logits_losses_and_gradients_are_close(file: Path) -> None:
    fla_cpu.enable()
    wide, narrow = trainer(file, None), trainer(file, "bf16")
    logits = wide.predict(X)
    apart = np.abs(narrow.predict(X) - logits).max()
    assert 0 < apart < FAR.get(file.stem, 0.04) * np.abs(logits).max()
    for t in (wide, narrow):
        t.step(X, Y)
    assert narrow.mean_loss() == pytest.approx(wide.mean_loss(), rel=1e-2)
    one, other = gradient(wide), gradient(narrow)
    assert float(torch.cosine_similarity(one, other, dim=0)) > ALONG.get(file.stem, 0.99)
    assert float(other.norm() / one.norm()) == pytest.approx(1, abs=LONG.get(file.stem, 0.03))
