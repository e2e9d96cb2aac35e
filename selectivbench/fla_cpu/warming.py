"""Compiles the kernels, or loads them from the cache folder, before they are needed.

A fork server calls this once, so that its children inherit compiled code. Every call here has one
item of work, so no thread is started and no parallel region is entered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from selectivbench.errors import UsageError, explain, near
from selectivbench.fla_cpu import convolution, norms, ops_attention
from selectivbench.fla_cpu.dplr import dplr
from selectivbench.fla_cpu.gating import silu_gate
from selectivbench.fla_cpu.linear import recurrence
from selectivbench.fla_cpu.mesa import solution
from selectivbench.fla_cpu.scan import selective_scan


def _ones(*shape: int) -> torch.Tensor:
    return torch.ones(shape, requires_grad=True)


def _linear() -> None:
    x, g = _ones(1, 1, 1, 1), _ones(1, 1, 1)
    torch.autograd.backward(recurrence(x, x, x, g)[0].sum())


def _delta() -> None:
    x, g = _ones(1, 1, 1, 1), _ones(1, 1, 1)
    torch.autograd.backward(recurrence(x, x, x, g, g)[0].sum())


def _dplr() -> None:
    x = _ones(1, 1, 1, 1)
    torch.autograd.backward(dplr(x, x, x, x, x, x, 1.0)[0].sum())


def _mesa() -> None:
    x, g = _ones(1, 1, 1, 1), _ones(1, 1, 1)
    torch.autograd.backward(solution(x, x, x, g, _ones(1, 1), x, 1).sum())


def _attention() -> None:
    x = torch.ones(1, 1, 1, 1)
    o, lse = ops_attention.parallel_attn_fwd(x, x, x, None, None, 1.0)
    ops_attention.parallel_attn_bwd(x, x, x, o, None, lse, x)


def _scan() -> None:
    x, A = _ones(1, 1, 1), _ones(1, 1)
    torch.autograd.backward(selective_scan(x, x, A, x, x, _ones(1), None)[0].sum())


def _conv() -> None:
    x, weight = torch.ones(1, 1, 1), torch.ones(1, 1)
    convolution.causal_conv1d_fwd(x, weight, None, None)
    convolution.causal_conv1d_bwd(x, x, None, weight)


def _norm() -> None:
    x = torch.ones(1, 1)
    rstd = norms.layer_norm_fwd(x, None, None, is_rms_norm=True)[2]
    norms.layer_norm_bwd(x, x, None, None, rstd=rstd, is_rms_norm=True)


def _gate() -> None:
    torch.autograd.backward(silu_gate(_ones(1), _ones(1)).sum())


FAMILIES: dict[str, Callable[[], None]] = {
    "linear": _linear,
    "delta": _delta,
    "dplr": _dplr,
    "mesa": _mesa,
    "attention": _attention,
    "scan": _scan,
    "conv": _conv,
    "norm": _norm,
    "gate": _gate,
}


def warm(names: Iterable[str] | None = None) -> None:
    """Run the smallest case of each family of kernels, by default of all."""
    for name in FAMILIES if names is None else names:
        if name not in FAMILIES:
            remedy = "leave names out to warm all"
            raise UsageError(explain("fla_cpu.warm_up name", name, near(name, FAMILIES), remedy))
        FAMILIES[name]()
