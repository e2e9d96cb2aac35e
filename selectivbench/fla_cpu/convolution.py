# ruff: noqa: ARG001  (arguments are fla's; some only steer its GPU kernels)
"""CPU versions of fla's short causal convolution, with its cache and its packed sequences."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from selectivbench.fla_cpu import conv_kernels
from selectivbench.fla_cpu.activations import wide
from selectivbench.fla_cpu.compiling import flat, run

Two = tuple[Tensor, Tensor]


def causal_conv1d_fwd(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    activation: str | None = None,
    cu_seqlens: Tensor | None = None,
    **layout: Any,
) -> tuple[Tensor, Tensor | None]:
    x3 = x.flatten(2)
    if cu_seqlens is not None:
        return _packed_conv_fwd(x3, weight, bias, residual, initial_state, output_final_state,
                                activation, cu_seqlens, x.shape)  # fmt: skip
    (B, T, D), W = x3.shape, weight.shape[1]
    led, lead = _led(x3, initial_state)
    taps, level = _taps(weight, bias, led)
    y = led.new_empty(B, T, D)
    dims = (T, D, W, lead)
    arrays = [flat(i) for i in (led, taps, level, y)]
    run(conv_kernels.forward, B * -(-D // 16), dims, activation is not None, *arrays)
    y = y.view(x.shape) if residual is None else y.view(x.shape) + wide(residual)
    last = None
    if output_final_state:
        last = causal_conv1d_update_states(x3, W, initial_state)
    return y.to(x.dtype), last


def _packed_conv_fwd(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    state: Tensor | None,
    output_final_state: bool,
    activation: str | None,
    cu_seqlens: Tensor,
    shape: torch.Size,
) -> tuple[Tensor, Tensor | None]:
    parts = x.split_with_sizes(cu_seqlens.diff().tolist(), 1)
    ys = [
        causal_conv1d_fwd(
            p, weight, bias, None, None if state is None else state[i : i + 1], False, activation
        )[0]
        for i, p in enumerate(parts)
    ]
    y = torch.cat(ys, 1).view(shape)
    y = y if residual is None else (wide(y) + wide(residual)).to(y.dtype)
    W = weight.shape[1]
    last = causal_conv1d_update_states(x, W, state, cu_seqlens) if output_final_state else None
    return y, last


def causal_conv1d_bwd(
    x: Tensor,
    dy: Tensor,
    dht: Tensor | None,
    weight: Tensor,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    initial_state: Tensor | None = None,
    activation: str | None = None,
    cu_seqlens: Tensor | None = None,
    **layout: Any,
) -> tuple[Tensor | None, ...]:
    x3, dy3 = x.flatten(2), dy.flatten(2)
    if cu_seqlens is None:
        dx, dw, db, dh = _conv_grad(x3, dy3, dht, weight, bias, initial_state, activation)
    else:
        lengths = cu_seqlens.diff().tolist()
        parts = [
            _conv_grad(p, d, None if dht is None else dht[i : i + 1], weight, bias,
                       None if initial_state is None else initial_state[i : i + 1], activation)
            for i, (p, d) in enumerate(
                zip(x3.split_with_sizes(lengths, 1), dy3.split_with_sizes(lengths, 1), strict=True))
        ]  # fmt: skip
        dx = torch.cat([p[0] for p in parts], 1)
        dw, db = sum(p[1] for p in parts), sum(p[2] for p in parts)
        dh = None if initial_state is None else torch.cat([p[3] for p in parts])
    dbias = None if bias is None else db.to(bias.dtype)
    dh0 = None if initial_state is None else dh.to(initial_state.dtype)
    dres = None if residual is None else dy
    return dx.view(x.shape).to(x.dtype), dw.to(weight.dtype), dbias, dres, dh0


def _conv_grad(
    x: Tensor,
    dy: Tensor,
    dht: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    state: Tensor | None,
    activation: str | None,
) -> Any:
    (B, T, D), W = x.shape, weight.shape[1]
    led, lead = _led(x, state)
    taps, level = _taps(weight, bias, led)
    dled, dw, db = torch.zeros_like(led), led.new_empty(B, W, D), led.new_empty(B, D)
    arrays = [flat(i) for i in (led, taps, level, wide(dy), dled, dw, db)]
    run(conv_kernels.backward, B * -(-D // 16), (T, D, W, lead), activation is not None, *arrays)
    if dht is not None:
        # The last state is the last W rows of what was read; older rows than exist are zeros.
        rows = min(W, lead + T)
        dled[:, lead + T - rows :] += wide(dht).transpose(1, 2)[:, W - rows :]
    dstate = dled[:, :lead].transpose(1, 2) if lead else None
    return dled[:, lead:], dw.sum(0).t(), db.sum(0), dstate


def _led(x: Tensor, state: Tensor | None) -> tuple[Tensor, int]:
    """x with the cached rows before it, and how many they are."""
    if state is None:
        return wide(x), 0
    return torch.cat((wide(state).transpose(1, 2), wide(x)), 1).contiguous(), state.shape[2]


def _taps(weight: Tensor, bias: Tensor | None, x: Tensor) -> Two:
    """Taps (W, D) and bias (D,) in the dtype of x."""
    level = x.new_zeros(weight.shape[0]) if bias is None else bias.to(x.dtype).contiguous()
    return weight.to(x.dtype).t().contiguous(), level


def causal_conv1d_update_states(
    x: Tensor, state_len: int, initial_state: Tensor | None = None, cu_seqlens: Tensor | None = None
) -> Tensor:
    """The last `state_len` inputs of every sequence, (N, D, W), zeros where there were fewer."""
    if cu_seqlens is not None:
        rows = x.flatten(0, -2)
        parts = rows.split_with_sizes(cu_seqlens.diff().tolist(), 0)
        states = (
            [None] * len(parts)
            if initial_state is None
            else list(initial_state.split_with_sizes([1] * len(parts)))
        )
        last = [
            causal_conv1d_update_states(p[None], state_len, s)
            for p, s in zip(parts, states, strict=True)
        ]
        return torch.cat(last)
    before = x.new_zeros(x.shape[0], state_len, x.shape[2])
    if initial_state is not None:
        before = initial_state.to(x.dtype).transpose(1, 2)
    return torch.cat((before, x), 1)[:, -state_len:].transpose(1, 2).contiguous()


def causal_conv1d_update(
    x: Tensor,
    cache: Tensor,
    residual: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    activation: str | None = None,
) -> Two:
    """One step of every sequence; `cache` (N, D, W) is shifted in place, as fla's version does."""
    now = x.reshape(-1, cache.shape[1])
    cache.copy_(torch.cat((cache[:, :, 1:], now.to(cache.dtype).unsqueeze(2)), 2))
    z = wide(cache) if weight is None else wide(cache) * wide(weight)
    y = z.sum(2) if bias is None else z.sum(2) + wide(bias)
    y = y if activation is None else F.silu(y)
    y = y.view(x.shape)
    y = y if residual is None else y + wide(residual)
    return y.to(x.dtype), cache
