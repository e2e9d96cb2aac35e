"""The two methods in which fla's Mamba layers compute their scan themselves, with kernels inside.

They keep fla's contract: the same arguments, the same three results, the same cache layout.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from selectivbench.errors import UsageError, explain
from selectivbench.fla_cpu.activations import wide
from selectivbench.fla_cpu.gating import silu_gate
from selectivbench.fla_cpu.linear import recurrence
from selectivbench.fla_cpu.scan import selective_scan

States = tuple[Tensor, Tensor | None, Tensor]


def mamba_forward(
    self: Any,
    input_states: Tensor,
    last_state: dict[str, Tensor] | None = None,
    use_cache: bool | None = False,
    attention_mask: Tensor | None = None,
    **_: Any,
) -> States:
    """`Mamba.slow_forward`."""
    _one_step_only("Mamba", input_states, last_state)
    x, gate = _project(self.in_proj, input_states, (self.intermediate_size,) * 2)
    mask = attention_mask if last_state is None else None
    x, conv_state = _convolve(self, x, last_state, use_cache, mask)
    parts = (self.dt_rank, self.ssm_state_size, self.ssm_state_size)
    step, B, C = _project(self.x_proj, x, parts)
    step = F.softplus(self.dt_proj(step))
    A = -torch.exp(wide(self.A_log))
    state = None if last_state is None else last_state["recurrent_state"]
    y, state = selective_scan(x, step, A, B, C, self.D, state)
    return self.out_proj(silu_gate(y, gate).to(input_states.dtype)), conv_state, state


def mamba2_forward(
    self: Any,
    input_states: Tensor,
    last_state: dict[str, Tensor] | None = None,
    use_cache: bool | None = False,
    attention_mask: Tensor | None = None,
) -> States:
    """`Mamba2.torch_forward`: a gated linear recurrence in which B are keys and C queries."""
    _one_step_only("Mamba2", input_states, last_state)
    (N, T, _), H, G = input_states.shape, self.num_heads, self.n_groups
    gate, x, step = _project(self.in_proj, input_states, (self.intermediate_size, self.conv_dim, H))
    mask = attention_mask if last_state is None else None
    x, conv_state = _convolve(self, x, last_state, use_cache, mask)
    size = G * self.ssm_state_size
    values, B, C = x.split_with_sizes((self.intermediate_size, size, size), -1)
    step = F.softplus(wide(step) + wide(self.dt_bias)).clamp(*self.dt_limit)
    values = wide(values).view(N, T, H, self.head_dim)
    B, C = (wide(i).view(N, T, G, -1) for i in (B, C))
    g = step * -torch.exp(wide(self.A_log))
    state = None if last_state is None else last_state["recurrent_state"].transpose(-1, -2)
    y, state = recurrence(C, B, values * step.unsqueeze(-1), g, None, 1.0, state)
    y = (y + values * self._get_D(expand_to_head_dim=True)).flatten(2)
    y = self.norm(y, gate) if self.rmsnorm else y * self.act(gate)
    return self.out_proj(y.to(input_states.dtype)), conv_state, state.transpose(-1, -2)


def _one_step_only(layer: str, x: Tensor, last_state: object) -> None:
    if last_state is not None and x.shape[1] != 1:
        remedy = "decode token by token, or start without a cache"
        raise UsageError(explain(f"{layer} with a cache: steps", x.shape[1], "1", remedy))


def _project(linear: Any, x: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, ...]:
    """The slices of `linear(x)`, each contiguous; a kernel would have to copy a view."""
    if sum(sizes) != linear.out_features:
        raise UsageError(
            explain("width of a Mamba projection", linear.out_features, sum(sizes), "use fla 0.6")
        )
    weights = linear.weight.split_with_sizes(sizes)
    biases = (None,) * len(sizes) if linear.bias is None else linear.bias.split_with_sizes(sizes)
    return tuple(F.linear(x, w, b) for w, b in zip(weights, biases, strict=True))


def _convolve(
    self: Any,
    x: Tensor,
    last_state: dict[str, Tensor] | None,
    use_cache: bool | None,
    mask: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    """The short convolution with its activation, and the cache (B, D, W) of its last inputs."""
    from fla.modules.convolution import causal_conv1d

    x = x if mask is None else (x * mask.unsqueeze(-1)).to(x.dtype)
    before = None if last_state is None else last_state["conv_state"]
    silu = self.activation in ("silu", "swish")
    y, after = causal_conv1d(
        x=x,
        weight=self.conv1d.weight.squeeze(1),
        bias=self.conv1d.bias,
        initial_state=before,
        output_final_state=bool(use_cache) or before is not None,
        activation="silu" if silu else None,
        backend="triton",
    )
    y = y if silu else self.act(y)
    return y if mask is None else (y * mask.unsqueeze(-1)).to(y.dtype), after
