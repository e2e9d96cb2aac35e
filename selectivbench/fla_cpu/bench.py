"""`python -m selectivbench.fla_cpu.bench`: one training step of fla's layers, loop beside kernels.

The loop is the plain recurrence under autograd; projections, convolutions and norms are the same on
both sides. Times are the best of several steps, taken in turn, so that a busy neighbour disturbs
both. Below, each kernel's rate beside what this machine can do at most: the roof is the smaller of
its measured arithmetic peak and its memory rate times the operations per byte.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

from selectivbench import fla_cpu
from selectivbench.fla_cpu import loops
from selectivbench.fla_cpu.compiling import Array, kernel
from selectivbench.fla_cpu.simd import load, store

SHAPES = ((64, 256, 64), (32, 400, 128))
# The targets by number of threads.
TARGETS = {1: 4.0, 2: 7.0}
LAYERS = ("GLA", "GatedDeltaNet", "Mamba", "Mamba2")


def _layer(name: str, d: int) -> nn.Module:
    from fla import layers

    kind, options = {
        "GLA": (layers.GatedLinearAttention, {"num_heads": 4, "use_short_conv": True}),
        "GatedDeltaNet": (
            layers.GatedDeltaNet,
            {"num_heads": d // 32, "head_dim": 32, "expand_v": 2},
        ),
        "Mamba": (layers.Mamba, {"intermediate_size": 2 * d}),
        "Mamba2": (layers.Mamba2, {"head_dim": 32, "state_size": 64, "chunk_size": 64}),
    }[name]
    layer: nn.Module = kind(hidden_size=d, layer_idx=0, **options)
    return layer


def _step(layer: nn.Module, x: Tensor) -> float:
    start = time.perf_counter()
    layer(x)[0].square().sum().backward()
    return time.perf_counter() - start


def _loop(layer: nn.Module, x: Tensor) -> float:
    package = __package__ or ""
    with ExitStack() as stack:
        for name in ("ops_linear.recurrence", "mamba.recurrence", "mamba.selective_scan"):
            stack.enter_context(patch(f"{package}.{name}", getattr(loops, name.split(".")[1])))
        return _step(layer, x)


def compare(name: str, shape: tuple[int, int, int], rounds: int) -> tuple[float, float]:
    """Seconds of a step with the loop and with the kernels."""
    torch.manual_seed(0)
    layer, x = _layer(name, shape[2]), torch.randn(shape, requires_grad=True)
    _step(layer, x)
    pairs = [(_loop(layer, x), min(_step(layer, x) for _ in range(4))) for _ in range(rounds)]
    return min(p[0] for p in pairs), min(p[1] for p in pairs)


class Rate(NamedTuple):
    """A kernel's seconds, and the operations and bytes that the algorithm needs at least."""

    name: str
    seconds: float
    operations: float
    traffic: float


@kernel
def _peak(x: Array, n: int) -> None:
    a, b = load(x, 0), load(x, 16)
    c0, c1, c2, c3 = load(x, 32), load(x, 48), load(x, 64), load(x, 80)
    c4, c5, c6, c7 = load(x, 96), load(x, 112), load(x, 128), load(x, 144)
    for _ in range(n):
        c0, c1, c2, c3 = c0 * a + b, c1 * a + b, c2 * a + b, c3 * a + b
        c4, c5, c6, c7 = c4 * a + b, c5 * a + b, c6 * a + b, c7 * a + b
    store(x, 0, c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7)


def _best(call: Callable[[], object], rounds: int = 40) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def peaks() -> tuple[float, float]:
    """Operations and bytes per second of one thread."""
    x = np.full(160, 0.5, np.float32)
    _peak(x, 1)
    arithmetic = 2 * 16 * 8 * 1_000_000 / _best(lambda: _peak(x, 1_000_000))
    source, target = torch.empty(2, 16_000_000)
    memory = 2 * 4 * source.numel() / _best(lambda: target.copy_(source))
    return arithmetic, memory


def _linear_rates(
    name: str, B: int, T: int, G: int, H: int, K: int, V: int, delta: bool
) -> list[Rate]:
    from selectivbench.fla_cpu.linear import recurrence

    q, k, v = torch.randn(B, T, G, K), torch.randn(B, T, G, K) / K, torch.randn(B, T, H, V)
    g = -torch.rand(B, T, H) if name != "GLA" else -torch.rand(B, T, H, K)
    beta = torch.rand(B, T, H, requires_grad=True) if delta else None
    inputs = (q.requires_grad_(), k.requires_grad_(), v.requires_grad_(), g.requires_grad_())
    cells, numbers = B * T * H * K * V, sum(x.numel() for x in inputs)
    output = recurrence(*inputs, beta)[0]
    forward = _best(lambda: recurrence(*inputs, beta))
    backward = _best(lambda: torch.autograd.grad(output, inputs, v, retain_graph=True))
    # Forward: decay, write, read, with the delta rule also look up. Backward: the state again,
    # its gradient, and the gradients of q, k, v and g.
    return [
        Rate(f"{name} forward", forward, (7 if delta else 5) * cells, 4 * (numbers + v.numel())),
        Rate(f"{name} backward", backward, (19 if delta else 15) * cells, 8 * numbers),
    ]


def _scan_rates(B: int, T: int, D: int, N: int) -> list[Rate]:
    from selectivbench.fla_cpu.scan import selective_scan

    x, dt, Bm, Cm = (
        torch.randn(B, T, D),
        torch.rand(B, T, D),
        torch.randn(B, T, N),
        torch.randn(B, T, N),
    )
    A, skip = -torch.rand(D, N), torch.ones(D)
    for tensor in (inputs := (x, dt, A, Bm, Cm, skip)):
        tensor.requires_grad_()
    cells, numbers = B * T * D * N, sum(i.numel() for i in inputs)
    output = selective_scan(*inputs, None)[0]
    forward = _best(lambda: selective_scan(*inputs, None))
    backward = _best(lambda: torch.autograd.grad(output, inputs, x, retain_graph=True))
    # exp counts as twenty operations: seven fused ones, and six for its range.
    return [
        Rate("Mamba forward", forward, 26 * cells, 4 * (numbers + x.numel())),
        Rate("Mamba backward", backward, 46 * cells, 8 * numbers),
    ]


def rates() -> list[Rate]:
    """Small batches: a call is over before a neighbour takes the core."""
    B, T, d = 8, 256, 64
    return [
        *_linear_rates("GLA", B, T, 4, 4, d // 8, d // 4, False),
        *_linear_rates("GatedDeltaNet", B, T, d // 32, d // 32, 32, 64, True),
        *_linear_rates("Mamba2", B, T, 1, d // 16, 64, 32, False),
        *_scan_rates(B, T, 2 * d, 16),
    ]


def _print_layers(threads: int, rounds: int, names: list[str]) -> None:
    torch.set_num_threads(threads)
    print(f"\n{threads} thread(s), target {TARGETS.get(threads, 4.0):.0f}x")
    print(f"{'layer':15}{'B x T x d':>15}{'loop ms':>10}{'kernel ms':>11}{'ratio':>8}")
    for name in names:
        for shape in SHAPES:
            loop, ours = compare(name, shape, rounds)
            size = "x".join(map(str, shape))
            print(f"{name:15}{size:>15}{loop * 1e3:10.0f}{ours * 1e3:11.1f}{loop / ours:7.1f}x")


def _print_rates() -> None:
    torch.set_num_threads(1)
    arithmetic, memory = peaks()
    print(f"\none thread: {arithmetic / 1e9:.0f} GFLOP/s, {memory / 1e9:.1f} GB/s at most")
    print(f"{'kernel':25}{'ms':>8}{'GFLOP/s':>10}{'flop/byte':>11}{'of roof':>9}")
    for rate in rates():
        intensity = rate.operations / rate.traffic
        roof = min(arithmetic, memory * intensity)
        speed = rate.operations / rate.seconds
        print(
            f"{rate.name:25}{rate.seconds * 1e3:8.1f}{speed / 1e9:10.1f}{intensity:11.1f}"
            f"{speed / roof:9.0%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m selectivbench.fla_cpu.bench")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--layers", nargs="*", default=list(LAYERS), choices=LAYERS)
    options = parser.parse_args()
    fla_cpu.enable()
    _print_rates()
    for threads in options.threads:
        _print_layers(threads, options.rounds, options.layers)


if __name__ == "__main__":
    main()
