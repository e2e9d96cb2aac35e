# ruff: noqa: N803, N806  (shapes are named B, T, H, K, V as in fla)
"""The kernels by themselves, against the step-by-step references in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import reference
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from selectivbench.fla_cpu import convolution, norms, ops_attention
from selectivbench.fla_cpu.dplr import dplr
from selectivbench.fla_cpu.gating import silu_gate
from selectivbench.fla_cpu.linear import recurrence
from selectivbench.fla_cpu.mesa import solution
from selectivbench.fla_cpu.scan import selective_scan

Inputs = dict[str, Tensor | None]
Function = Callable[..., Any]


def _normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def _linear(T: int, gate: str, delta: bool, heads: tuple[int, int, int, int]) -> Inputs:
    G, H, K, V = heads
    gates = {"none": None, "head": -torch.rand(2, T, H), "key": -torch.rand(2, T, H, K)}
    g = gates[gate]
    return {
        "q": _normal(2, T, G, K),
        "k": F.normalize(_normal(2, T, G, K), dim=-1),
        "v": _normal(2, T, H, V),
        "g": None if g is None else g.double(),
        "beta": torch.rand(2, T, H).double() if delta else None,
        "state": _normal(2, H, K, V),
    }


def _results(function: Function, inputs: Inputs, dtype: torch.dtype) -> list[Tensor]:
    """Outputs, and gradients of all inputs, for incoming gradients that are all different."""
    given = {
        n: None if x is None else x.detach().clone().to(dtype).requires_grad_()
        for n, x in inputs.items()
    }
    outputs = function(**given)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    torch.manual_seed(2)
    sum((o * _normal(*o.shape)).sum() for o in outputs).backward()
    return [*outputs, *(x.grad for x in given.values() if x is not None)]


def _assert_close(ours: Function, theirs: Function, inputs: Inputs, allowed: float = 3e-6) -> None:
    wanted = _results(theirs, inputs, torch.float64)
    for dtype, bound in ((torch.float32, allowed), (torch.float64, 1e-12)):
        for got, want in zip(_results(ours, inputs, dtype), wanted, strict=True):
            error = (got - want).abs().max() / want.abs().max().clamp_min(1e-3)
            assert error <= bound, f"{dtype}: {error:.1e}"


@pytest.mark.parametrize("delta", [False, True])
@pytest.mark.parametrize("gate", ["none", "head", "key"])
@pytest.mark.parametrize("T", [1, 16, 37])
@pytest.mark.parametrize("heads", [(2, 2, 16, 16), (1, 3, 9, 19), (2, 4, 33, 5)], ids=str)
def test_linear(T: int, gate: str, delta: bool, heads: tuple[int, int, int, int]) -> None:
    torch.manual_seed(0)
    inputs = _linear(T, gate, delta, heads)
    scale = 0.3
    _assert_close(partial(recurrence, scale=scale), partial(reference.linear, scale=scale), inputs)


@given(
    T=st.integers(1, 50),
    K=st.integers(1, 40),
    V=st.integers(1, 40),
    delta=st.booleans(),
    gate=st.sampled_from(["none", "head", "key"]),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_linear_any_shape(T: int, K: int, V: int, delta: bool, gate: str) -> None:
    torch.manual_seed(0)
    inputs = _linear(T, gate, delta, (1, 2, K, V))
    _assert_close(partial(recurrence, scale=1.0), partial(reference.linear, scale=1.0), inputs)


@pytest.mark.parametrize("delta", [False, True])
def test_linear_strong_decay_gives_no_nan(delta: bool) -> None:
    inputs = _linear(40, "key", delta, (1, 1, 16, 16))
    inputs["g"] = inputs["g"] * 200
    _assert_close(partial(recurrence, scale=1.0), partial(reference.linear, scale=1.0), inputs)


@pytest.mark.parametrize(("T", "H", "K", "V"), [(1, 1, 16, 16), (37, 3, 9, 19), (33, 2, 32, 8)])
def test_dplr(T: int, H: int, K: int, V: int) -> None:
    torch.manual_seed(0)
    unit = F.normalize(_normal(2, T, H, K), dim=-1)
    inputs: Inputs = {
        "q": _normal(2, T, H, K),
        "k": _normal(2, T, H, K),
        "v": _normal(2, T, H, V),
        "a": -unit,
        "b": unit * torch.rand(2, T, H, K).double(),
        "g": -torch.rand(2, T, H, K).double(),
        "state": _normal(2, H, K, V),
    }
    _assert_close(partial(dplr, scale=0.5), partial(reference.dplr, scale=0.5), inputs)


# Of the sixteen lanes: one in use, sequences in pieces (one step each; the last one shorter), and a
# second group with two in use.
@pytest.mark.parametrize(
    ("B", "T", "H", "K"), [(1, 1, 1, 3), (1, 5, 1, 9), (2, 37, 3, 16), (9, 7, 2, 24)]
)
@pytest.mark.parametrize("iterations", [4, 30])
def test_mesa(B: int, T: int, H: int, K: int, iterations: int) -> None:
    torch.manual_seed(0)
    k, root = F.normalize(_normal(B, T, H, K), dim=-1), _normal(B, H, K, K) / K
    inputs: Inputs = {
        "b": F.normalize(_normal(B, T, H, K), dim=-1),
        "k": k,
        "written": k * _rates(B, T, H, 1),
        "g": -_rates(B, T, H),
        "lamb": _rates(H, K) + 0.25,
        "state": root @ root.mT,
    }
    ours, theirs = (partial(f, iterations=iterations) for f in (solution, reference.mesa))
    _assert_close(ours, theirs, inputs)


@pytest.mark.parametrize(("T", "D", "N"), [(1, 1, 1), (37, 20, 16), (33, 16, 5), (40, 33, 17)])
def test_scan(T: int, D: int, N: int) -> None:
    torch.manual_seed(0)
    inputs: Inputs = {
        "x": _normal(2, T, D),
        "dt": torch.rand(2, T, D).double(),
        "A": -torch.rand(D, N).double() * 4,
        "B": _normal(2, T, N),
        "C": _normal(2, T, N),
        "skip": _normal(D),
        "state": _normal(2, D, N),
    }

    def ours(B: Tensor, C: Tensor, **rest: Tensor) -> Any:
        return selective_scan(Bm=B, Cm=C, **rest)

    _assert_close(ours, reference.scan, inputs)


@pytest.mark.parametrize("gates", [True, False])
@pytest.mark.parametrize("window", [None, 7])
@pytest.mark.parametrize(("T", "H", "G", "D"), [(1, 1, 1, 16), (37, 4, 2, 9), (50, 2, 2, 32)])
def test_attention(T: int, H: int, G: int, D: int, window: int | None, gates: bool) -> None:
    from fla.ops.attn import parallel_attn

    torch.manual_seed(0)
    g = F.logsigmoid(_normal(2, T, H) + 2) if gates else torch.zeros(2, T, H).double()
    q, k, v = _normal(2, T, H, D), _normal(2, T, G, D), _normal(2, T, G, D)
    inputs: Inputs = {"q": q, "k": k, "v": v, "g": g}

    def ours(**x: Tensor) -> Tensor:
        return parallel_attn(**x, scale=0.4, window_size=window)

    def theirs(**x: Tensor) -> Tensor:
        return reference.attention(**x, scale=0.4, window=window)

    # fla hands the summed gates over in units of ln 2, rounded to float32.
    wanted = _results(theirs, inputs, torch.float64)
    for got, want in zip(_results(ours, inputs, torch.float32), wanted, strict=True):
        assert (got - want).abs().max() <= 5e-6 * want.abs().max().clamp_min(1.0)


def test_attention_sink_takes_weight_from_all_keys() -> None:
    q, k, v = torch.randn(3, 1, 5, 2, 16)
    o, lse = ops_attention.parallel_attn_fwd(q, k, v, None, torch.full((2,), 30.0), 0.25)
    plain, _ = ops_attention.parallel_attn_fwd(q, k, v, None, None, 0.25)
    assert o.abs().max() < 1e-6 < plain.abs().max()
    assert torch.allclose(lse, torch.full_like(lse, 30.0), atol=1e-4)


@pytest.mark.parametrize(("T", "D", "W"), [(1, 1, 1), (9, 20, 4), (2, 16, 4), (33, 50, 3)])
@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize("cached", [False, True])
def test_convolution(T: int, D: int, W: int, activation: str | None, cached: bool) -> None:
    torch.manual_seed(0)
    from fla.modules.convolution import causal_conv1d

    inputs: Inputs = {
        "x": _normal(2, T, D),
        "weight": _normal(D, W),
        "bias": _normal(D),
        "initial_state": _normal(2, D, W) if cached else None,
    }

    def theirs(x: Tensor, weight: Tensor, bias: Tensor, initial_state: Tensor | None) -> Any:
        state = x.new_zeros(2, D, W) if initial_state is None else initial_state
        rows = torch.cat((state, x.transpose(1, 2)), 2)
        z = F.conv1d(rows[:, :, 1:], weight.unsqueeze(1), bias, groups=D)
        y = z if activation is None else F.silu(z)
        return y.transpose(1, 2), rows[:, :, -W:]

    def ours(**x: Tensor | None) -> Any:
        return causal_conv1d(**x, activation=activation, output_final_state=True)

    _assert_close(ours, theirs, inputs)


@pytest.mark.parametrize("rms", [True, False])
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("D", [1, 16, 21])
def test_norm(rms: bool, groups: int, D: int) -> None:
    from fla.modules.layernorm import LayerNormFunction

    torch.manual_seed(0)
    n = groups * D
    inputs: Inputs = {"x": _normal(700, n) + 3, "weight": _normal(n), "bias": _normal(n)}

    def ours(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
        args = (x, weight, bias, None, 1e-5, False, False, rms, groups)
        return LayerNormFunction.apply(*args)

    def theirs(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        rows = x.unflatten(1, (groups, D))
        rows = rows if rms else rows - rows.mean(-1, keepdim=True)
        rows = rows / (rows.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return rows.flatten(1) * weight + bias

    _assert_close(ours, theirs, inputs, 2e-5)


@pytest.mark.parametrize("activation", ["swish", "sigmoid"])
def test_gated_norm(activation: str) -> None:
    from fla.modules.fused_norm_gate import LayerNormGatedFunction

    torch.manual_seed(0)
    inputs: Inputs = {"x": _normal(30, 21), "g": _normal(30, 21), "weight": _normal(21)}

    def ours(x: Tensor, g: Tensor, weight: Tensor) -> Any:
        args = (x, g, weight, None, activation, None, 1e-5, False, False, True)
        return LayerNormGatedFunction.apply(*args)

    def theirs(x: Tensor, g: Tensor, weight: Tensor) -> Tensor:
        y = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight
        return y * g.sigmoid() * (g if activation == "swish" else 1)

    _assert_close(ours, theirs, inputs)


def test_silu_gate() -> None:
    torch.manual_seed(0)
    inputs: Inputs = {"y": _normal(3, 1500), "z": _normal(3, 1500) * 5}
    _assert_close(silu_gate, lambda y, z: y * F.silu(z), inputs)


def test_l2norm() -> None:
    torch.manual_seed(0)
    x, dy = _normal(2, 5, 3, 21), _normal(2, 5, 3, 21)
    y, rstd = norms.l2norm_fwd(x)
    assert torch.allclose(y, x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt())
    leaf = x.clone().requires_grad_()
    (leaf / (leaf.square().sum(-1, keepdim=True) + 1e-6).sqrt()).backward(dy)
    assert torch.allclose(norms.l2norm_bwd(y, rstd, dy), leaf.grad)


def test_convolution_state_of_packed_sequences() -> None:
    x, edges = torch.randn(1, 9, 4), torch.tensor([0, 2, 9])
    states = convolution.causal_conv1d_update_states(x, 3, None, edges)
    assert torch.equal(states[1], x[0, 6:9].t())
    assert torch.equal(states[0], torch.cat((torch.zeros(1, 4), x[0, :2])).t())


def _rates(*shape: int) -> Tensor:
    return torch.rand(*shape).double()


GRADIENTS: dict[str, tuple[Function, list[Tensor]]] = {
    "linear": (
        lambda q, k, v, g, s: recurrence(q, k, v, g, None, 1.0, s),
        [
            *(_normal(1, 5, 1, 3), _normal(1, 5, 1, 3), _normal(1, 5, 2, 2)),
            *(-_rates(1, 5, 2, 3), _normal(1, 2, 3, 2)),
        ],
    ),
    "delta": (
        lambda q, k, v, g, b, s: recurrence(q, k, v, g, b, 1.0, s),
        [
            *(_normal(1, 5, 1, 3), _normal(1, 5, 1, 3) / 2, _normal(1, 5, 1, 2)),
            *(-_rates(1, 5, 1), _rates(1, 5, 1), _normal(1, 1, 3, 2)),
        ],
    ),
    "dplr": (
        lambda *x: dplr(*x[:6], 1.0, x[6]),
        [
            *(_normal(1, 5, 1, 3), _normal(1, 5, 1, 3), _normal(1, 5, 1, 2)),
            *(_normal(1, 5, 1, 3) / 2, _normal(1, 5, 1, 3) / 2, -_rates(1, 5, 1, 3)),
            _normal(1, 1, 3, 2),
        ],
    ),
    "scan": (
        lambda *x: selective_scan(*x),
        [
            *(_normal(1, 5, 2), _rates(1, 5, 2), -_rates(2, 3), _normal(1, 5, 3)),
            *(_normal(1, 5, 3), _normal(2), _normal(1, 2, 3)),
        ],
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_by_finite_differences(name: str) -> None:
    function, inputs = GRADIENTS[name]
    assert torch.autograd.gradcheck(function, [x.requires_grad_() for x in inputs])
