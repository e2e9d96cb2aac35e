"""Everything that `enable()` changes in fla, in one table.

`HOOKS` names functions of fla and what serves them on CPU tensors. Where fla dispatches a function
itself, an implementation is registered with fla's own `register` and nothing is patched. The rest
is made dispatchable with fla's own `dispatch`, and the name is rebound to the result wherever a
module holds it. `METHODS` replaces two methods, because Mamba and Mamba-2 have no function to hook.
A test checks that all names exist and which ones fla dispatches.
"""

from __future__ import annotations

from typing import NamedTuple

SUPPORTED_FLA = ("0.6",)


class Hook(NamedTuple):
    """fla's module and function, and ours; `operation` is set where fla dispatches by that name."""

    module: str
    name: str
    ours: str
    operation: str | None = None


def _same(module: str, ours: str, *names: str) -> tuple[Hook, ...]:
    """Functions that carry fla's name here too."""
    return tuple(Hook(module, name, f"{ours}:{name}") for name in names)


NATIVE: tuple[Hook, ...] = (
    *_same(
        "fla.modules.activations.ops", "activations",
        "sigmoid_fwd", "sigmoid_bwd", "elu_p1_fwd", "elu_p1_bwd", "logsigmoid_fwd",
        "logsigmoid_bwd", "swish_fwd", "swish_bwd", "swiglu_fwd", "swiglu_fwdbwd",
    ),
    *_same("fla.modules.norm.l2norm", "norms", "l2norm_fwd", "l2norm_bwd"),
    *_same("fla.modules.norm.layernorm", "norms", "layer_norm_fwd", "layer_norm_bwd"),
    *_same(
        "fla.modules.norm.fused_norm_gate", "norms", "layer_norm_gated_fwd", "layer_norm_gated_bwd"
    ),
    *_same(
        "fla.modules.causal_conv1d.ops", "convolution",
        "causal_conv1d_fwd", "causal_conv1d_bwd", "causal_conv1d_update",
        "causal_conv1d_update_states",
    ),
    *_same("fla.modules.rotary.ops", "positions", "rotary_embedding_fwdbwd"),
    *_same("fla.ops.utils.cumsum", "positions", "chunk_global_cumsum"),
    Hook("fla.ops.simple_gla.fused_recurrent", "fused_recurrent_simple_gla", "ops_linear:simple_gla"),
    Hook("fla.ops.simple_gla.fused_chunk", "fused_chunk_simple_gla", "ops_linear:simple_gla"),
    Hook("fla.ops.simple_gla.parallel", "parallel_simple_gla", "ops_linear:parallel_simple_gla"),
    Hook("fla.ops.kda.chunk", "chunk_kda", "ops_linear:kda"),
    Hook(
        "fla.ops.gated_delta_rule.chunk", "chunk_gated_delta_rule",
        "ops_linear:gated_delta_rule", "gated_delta_rule",
    ),
)  # fmt: skip

PROMOTED: tuple[Hook, ...] = (
    *_same("fla.modules.norm.layernorm_gated", "gating", "layernorm_fn", "rmsnorm_fn"),
    Hook("fla.ops.gla.chunk", "chunk_gla", "ops_linear:chunk_gla"),
    Hook("fla.ops.gla.fused_recurrent", "fused_recurrent_gla", "ops_linear:fused_recurrent_gla"),
    Hook("fla.ops.simple_gla.chunk", "chunk_simple_gla", "ops_linear:simple_gla"),
    Hook("fla.ops.delta_rule.chunk", "chunk_delta_rule", "ops_linear:delta_rule"),
    Hook("fla.ops.delta_rule.fused_recurrent", "fused_recurrent_delta_rule", "ops_linear:delta_rule"),
    Hook(
        "fla.ops.gated_delta_rule.fused_recurrent", "fused_recurrent_gated_delta_rule",
        "ops_linear:gated_delta_rule",
    ),
    Hook("fla.ops.kda.fused_recurrent", "fused_recurrent_kda", "ops_linear:kda"),
    Hook(
        "fla.ops.gated_delta_product.chunk", "chunk_gated_delta_product",
        "ops_linear:gated_delta_product",
    ),
)  # fmt: skip

METHODS: tuple[Hook, ...] = (
    Hook("fla.layers.mamba", "Mamba.slow_forward", "mamba:mamba_forward"),
    Hook("fla.layers.mamba2", "Mamba2.torch_forward", "mamba:mamba2_forward"),
)
