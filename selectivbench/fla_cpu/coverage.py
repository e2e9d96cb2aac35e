"""`python -m selectivbench.fla_cpu.coverage`: what the backend serves, with errors and speeds.

Every layer of the table trains one step here, in float32 and in float64; the error is the largest
one of output, input gradient and parameter gradients, relative to each tensor's largest entry. The
time is that of a step of `SHAPE`. Run it with --markdown to make the table of the README again.
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from selectivbench import fla_cpu

D, HEADS = 64, 4
SHAPE = (8, 256, D)


class Row(NamedTuple):
    """How a layer is served: by compiled kernels, or by torch around them."""

    layer: str
    kernels: str
    cache: str
    options: dict[str, Any]


_HEADS = {"num_heads": HEADS}
_SIZED = {"num_heads": HEADS, "head_dim": D // HEADS}
_BASED = {"num_heads": HEADS, "num_key_value_heads": HEADS, "mode": "parallel"}
_RWKV7 = {"head_dim": D // HEADS, "num_hidden_layers": 2}

ROWS = (
    Row("GatedLinearAttention", "linear", "yes", {**_HEADS, "expand_k": 1.0}),
    Row("SimpleGatedLinearAttention", "linear", "yes", _HEADS),
    Row("MultiScaleRetention", "linear", "yes", _HEADS),
    Row("LinearAttention", "linear", "yes", _HEADS),
    Row("HGRN2Attention", "linear", "yes", {"expand_ratio": D // HEADS}),
    Row("Mamba2", "linear", "one step", {"head_dim": 32, "state_size": 32}),
    Row("DeltaNet", "delta", "yes", _HEADS),
    Row("GatedDeltaNet", "delta", "yes", {**_SIZED, "expand_v": 1}),
    Row("GatedDeltaProduct", "delta", "yes", {**_SIZED, "expand_v": 1}),
    Row("KimiDeltaAttention", "delta", "yes", _SIZED),
    Row("RWKV7Attention", "dplr", "yes", _RWKV7),
    Row("Comba", "dplr", "yes", {**_SIZED, "expand_v": 1}),
    Row("Mamba", "scan", "one step", {"intermediate_size": 2 * D}),
    Row("ForgettingAttention", "attention", "one step", _HEADS),
    Row("HGRNAttention", "linear, width 1", "yes", {}),
    Row("RWKV6Attention", "linear, shifted", "yes", _HEADS),
    Row("GatedSlotAttention", "linear, twice", "yes", {**_HEADS, "num_slots": 16}),
    Row("BasedLinearAttention", "linear, features", "none in fla", _BASED),
    Row("ReBasedLinearAttention", "linear, features", "none in fla", _BASED),
    Row("MesaNet", "linear, mesa", "yes", _SIZED),
    Row("PaTHAttention", "torch, T² scores", "one step", _HEADS),
    Row("Attention", "torch's SDPA", "yes", _HEADS),
)


def build(row: Row) -> nn.Module:
    from fla import layers
    from fla.layers import rwkv6, simple_gla

    known = {**vars(rwkv6), **vars(simple_gla), **vars(layers)}
    shared: dict[str, Any] = {"hidden_size": D}
    if row.cache != "none in fla":
        shared["layer_idx"] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer: nn.Module = known[row.layer](**shared, **row.options)
    return layer


def step(layer: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Output and gradients of one training step."""
    x = x.clone().requires_grad_()
    y = layer(x)
    y = y[0] if isinstance(y, tuple) else y
    y.sin().sum().backward()
    grads = {n: p.grad.clone() for n, p in layer.named_parameters() if p.grad is not None}
    layer.zero_grad()
    return {"y": y.detach(), "dx": x.grad, **grads}


def error(row: Row) -> float | None:
    """Against float64; None where fla itself keeps something in float32."""
    torch.manual_seed(0)
    layer, x = build(row), torch.randn(2, 100, D)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    ours = step(layer, x)
    try:
        exact = step(copy.deepcopy(layer).double(), x.double())
    except (AssertionError, RuntimeError):
        return None
    floor = 1e-3 * max(t.abs().max() for t in exact.values())
    return max(
        ((ours[n] - t).abs().max() / t.abs().max().clamp_min(floor)).item()
        for n, t in exact.items()
    )


def milliseconds(row: Row, rounds: int = 5) -> float:
    layer, x = build(row), torch.randn(SHAPE)
    return 1e3 * min(_seconds(lambda: step(layer, x)) for _ in range(rounds))


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m selectivbench.fla_cpu.coverage")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    fla_cpu.enable()
    torch.set_num_threads(options.threads)
    head = ("layer of fla", "kernels", "decoding with a cache", "error", "ms a step")
    line = (
        "| {:27} | {:19} | {:21} | {:>8} | {:>9} |"
        if options.markdown
        else "{:28}{:20}{:22}{:>9}{:>10}"
    )
    print(line.format(*head))
    if options.markdown:
        print("|---|---|---|---:|---:|")
    for row in ROWS:
        found = error(row)
        shown = "-" if found is None else f"{found:.1e}"
        print(line.format(row.layer, row.kernels, row.cache, shown, f"{milliseconds(row):.1f}"))


if __name__ == "__main__":
    main()
