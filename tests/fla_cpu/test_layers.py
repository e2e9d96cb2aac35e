"""Every covered layer on CPU tensors: lengths, float64 as a witness, caches, padding, batches."""

from __future__ import annotations

import pytest
import torch
from layer_cases import NAMES, Case, D, build, difference, run
from torch import Tensor, nn

# fla keeps the angles of its rotary embedding, and PaTH its w and beta, in float32.
FLOAT32_ONLY = {"MultiScaleRetention", "Attention", "PaTHAttention"}
# With one step their normalised output is its value, whatever the query: a gradient of zero.
ZERO_AT_ONE_STEP = {"BasedLinearAttention", "ReBasedLinearAttention"}
NO_CACHE = {"BasedLinearAttention", "ReBasedLinearAttention"}
# fla compiles PaTH's decoding step with torch.compile, which needs minutes and a C++ compiler.
COMPILES = {"PaTHAttention"}
NEEDS_MASK = {"ForgettingAttention", "PaTHAttention"}
ONE_STEP_CACHE = {"Mamba", "Mamba2", "ForgettingAttention", "PaTHAttention"}
PADDED = (
    "GatedLinearAttention", "MultiScaleRetention", "LinearAttention", "HGRN2Attention", "DeltaNet",
    "GatedDeltaNet", "GatedDeltaProduct", "KimiDeltaAttention", "Comba", "MesaNet",
    "GatedSlotAttention", "ForgettingAttention", "Attention",
)  # fmt: skip


def _plain(module: nn.Module, x: Tensor, **kwargs: object) -> Tensor:
    y = module(x, **kwargs)
    return y[0] if isinstance(y, tuple) else y


@pytest.mark.parametrize(
    "length", [1, 130, *(pytest.param(n, marks=pytest.mark.full) for n in (2, 16, 64, 65, 513))]
)
@pytest.mark.parametrize("name", NAMES)
def test_float32_is_close_to_float64(name: str, length: int) -> None:
    if name in FLOAT32_ONLY or (length == 1 and name in ZERO_AT_ONE_STEP):
        result = run(Case(name, length))
        assert all(torch.isfinite(t).all() for t in result.values())
        return
    worst, error = difference(run(Case(name, length)), run(Case(name, length, "float64")))
    assert error <= 5e-5, f"{worst}: {error:.1e}"


@pytest.mark.parametrize("name", ["RWKV7Attention", "GatedDeltaNet", "RWKV6Attention", "MesaNet"])
def test_where_fla_is_less_exact_this_is_not(name: str) -> None:
    worst, error = difference(run(Case(name)), run(Case(name, 100, "float64")))
    assert error <= 3e-6, f"{worst}: {error:.1e}"


@pytest.mark.full
@pytest.mark.parametrize("name", [n for n in NAMES if n not in FLOAT32_ONLY])
def test_long_sequences(name: str) -> None:
    worst, error = difference(run(Case(name, 4096)), run(Case(name, 4096, "float64")))
    # fla hands the forget gates over as sums from the start, which lose digits in float32.
    allowed = 1e-3 if name == "ForgettingAttention" else 1e-4
    assert error <= allowed, f"{worst}: {error:.1e}"


@pytest.mark.parametrize("name", NAMES)
def test_sequences_of_a_batch_do_not_meet(name: str) -> None:
    module, x = build(name).eval(), torch.randn(3, 70, D)
    with torch.no_grad():
        together, alone = _plain(module, x), _plain(module, x[1:2])
    assert torch.allclose(together[1:2], alone, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_causal(name: str) -> None:
    module, x = build(name).eval(), torch.randn(1, 70, D)
    changed = x.clone()
    changed[:, 40:] += 1.0
    with torch.no_grad():
        before, after = _plain(module, x), _plain(module, changed)
    assert torch.allclose(before[:, :40], after[:, :40], atol=1e-5)
    assert not torch.allclose(before[:, 40:], after[:, 40:], atol=1e-3)


def _mask(name: str, length: int) -> dict[str, Tensor]:
    needed = name in NEEDS_MASK
    return {"attention_mask": torch.ones(2, length, dtype=torch.long)} if needed else {}


@pytest.mark.parametrize("start", [67, *(pytest.param(n, marks=pytest.mark.full) for n in (1, 5))])
@pytest.mark.parametrize("name", [n for n in NAMES if n not in NO_CACHE | COMPILES])
def test_decoding_step_by_step(name: str, start: int) -> None:
    from fla.models.utils import Cache

    module, x, cache = build(name).eval(), torch.randn(2, start + 4, D), Cache()
    with torch.no_grad():
        whole = _plain(module, x)
        parts = [x[:, :start], *(x[:, t : t + 1] for t in range(start, start + 4))]
        seen, outputs = 0, []
        for part in parts:
            seen += part.shape[1]
            mask = _mask(name, seen)
            outputs.append(_plain(module, part, past_key_values=cache, use_cache=True, **mask))
    assert torch.allclose(torch.cat(outputs, 1), whole, atol=2e-5)


@pytest.mark.parametrize(
    "name", [n for n in NAMES if n not in NO_CACHE | COMPILES | ONE_STEP_CACHE]
)
def test_a_sequence_in_two_pieces(name: str) -> None:
    from fla.models.utils import Cache

    module, x, cache = build(name).eval(), torch.randn(2, 150, D), Cache()
    with torch.no_grad():
        whole = _plain(module, x)
        pieces = [
            _plain(module, p, past_key_values=cache, use_cache=True) for p in x.split((83, 67), 1)
        ]
    assert torch.allclose(torch.cat(pieces, 1), whole, atol=2e-5)


@pytest.mark.parametrize("name", PADDED)
def test_left_padding_changes_nothing(name: str) -> None:
    module, x = build(name).eval(), torch.randn(2, 80, D)
    mask = torch.ones(2, 80, dtype=torch.long)
    mask[1, :30] = 0
    with torch.no_grad():
        padded = _plain(module, x, attention_mask=mask)
        alone = _plain(module, x[1:, 30:])
    assert torch.allclose(padded[1:, 30:], alone, atol=1e-5)


@pytest.mark.parametrize(
    "name", ["GatedLinearAttention", "GatedDeltaNet", "MesaNet", "ForgettingAttention"]
)
def test_gradients_of_packed_sequences(name: str) -> None:
    module, x = build(name), torch.randn(1, 90, D)
    edges = torch.tensor([0, 20, 90])
    packed = _plain(module, x, cu_seqlens=edges)
    packed.square().sum().backward()
    grads = {n: p.grad.clone() for n, p in module.named_parameters()}
    module.zero_grad()
    sum(_plain(module, x[:, a:b]).square().sum() for a, b in ((0, 20), (20, 90))).backward()
    alone = {n: p.grad for n, p in module.named_parameters()}
    worst, error = difference(grads, alone)
    assert error < 1e-5, worst


@pytest.mark.parametrize("name", ["GatedDeltaNet", "Mamba", "ForgettingAttention"])
def test_two_threads_give_the_same_numbers(name: str) -> None:
    one = run(Case(name))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        two = run(Case(name))
    finally:
        torch.set_num_threads(before)
    assert difference(two, one)[1] < 2e-6
