"""The language models of `fla.models` train one step on CPU, with fla's own fused losses."""

from __future__ import annotations

import warnings

import pytest
import torch

COMMON = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 50, "intermediate_size": 48}
# What each configuration needs beside the sizes that all share.
MODELS: dict[str, dict[str, object]] = {
    "GLA": {"num_heads": 2, "expand_k": 1.0},
    "RetNet": {"num_heads": 2},
    "LinearAttention": {"num_heads": 2},
    "HGRN": {},
    "HGRN2": {"num_heads": 2, "expand_ratio": 16},
    "DeltaNet": {"num_heads": 2},
    "GatedDeltaNet": {"num_heads": 2, "head_dim": 16},
    "GatedDeltaProduct": {"num_heads": 2, "head_dim": 16},
    "KDA": {"num_heads": 2, "head_dim": 16},
    "Comba": {"num_heads": 2, "head_dim": 16},
    "RWKV6": {"num_heads": 2, "proj_low_rank_dim": 8, "gate_low_rank_dim": 8},
    "RWKV7": {"head_dim": 16, "decay_low_rank_dim": 8, "gate_low_rank_dim": 8, "a_low_rank_dim": 8,
              "v_low_rank_dim": 8},
    "MesaNet": {"num_heads": 2, "head_dim": 16},
    "GSA": {"num_heads": 2, "num_slots": 16},
    "ForgettingTransformer": {"num_heads": 2},
    "PaTHAttention": {"num_heads": 2},
    "Transformer": {"num_heads": 2},
    "Mamba": {"state_size": 8, "intermediate_size": 64},
    "Mamba2": {"state_size": 16, "head_dim": 16, "num_heads": 4},
}  # fmt: skip
QUICK = {"GLA", "GatedDeltaNet", "Mamba2", "Transformer", "KDA"}
PARAMETERS = [n if n in QUICK else pytest.param(n, marks=pytest.mark.full) for n in sorted(MODELS)]


@pytest.mark.parametrize("name", PARAMETERS)
def test_one_step(name: str) -> None:
    from fla import models

    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # remarks of fla and transformers on their own settings
        config = getattr(models, f"{name}Config")(**{**COMMON, **MODELS[name]})
        model = getattr(models, f"{name}ForCausalLM")(config).train()
        tokens = torch.randint(0, 50, (2, 70))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        losses = []
        for _ in range(3):
            loss = model(input_ids=tokens, labels=tokens).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert 3.5 < losses[0] < 5.5  # ln 50 = 3.9
    assert losses[-1] < losses[0]


def test_fused_losses_are_cross_entropy() -> None:
    from fla.modules import FusedCrossEntropyLoss, FusedLinearCrossEntropyLoss

    torch.manual_seed(0)
    x, weight, target = torch.randn(9, 8), torch.randn(20, 8), torch.randint(0, 20, (9,))
    target[3] = -100
    inputs = [t.clone().requires_grad_() for t in (x, weight)]
    losses = [
        FusedLinearCrossEntropyLoss()(inputs[0], target, inputs[1]),
        FusedCrossEntropyLoss()(inputs[0] @ inputs[1].t(), target),
        torch.nn.functional.cross_entropy(inputs[0] @ inputs[1].t(), target),
    ]
    grads = [torch.autograd.grad(loss, inputs) for loss in losses]
    for loss, grad in zip(losses, grads, strict=True):
        assert torch.allclose(loss, losses[2], rtol=1e-5)
        assert all(map(lambda a, b: torch.allclose(a, b, atol=1e-6), grad, grads[2]))
