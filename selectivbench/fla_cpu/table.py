"""Everything that `enable()` changes in fla, in one table.

`HOOKS` names functions of fla and what serves them on CPU tensors. Where fla dispatches a function
itself, an implementation is registered with fla's own `register` and nothing is patched. The rest
is made dispatchable with fla's own `dispatch`, and the name is rebound to the result wherever a
module holds it. `METHODS` replaces three methods: Mamba and Mamba-2 have no function to hook, and
the loss refuses CPU tensors in its first line. `SUPPLIED` are names that fla's Attention takes from
flash-attn; they are set only where that package is missing.
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
    Hook(
        "fla.ops.simple_gla.fused_recurrent", "fused_recurrent_simple_gla", "ops_linear:simple_gla"
    ),
    Hook("fla.ops.simple_gla.fused_chunk", "fused_chunk_simple_gla", "ops_linear:simple_gla"),
    Hook("fla.ops.simple_gla.parallel", "parallel_simple_gla", "ops_linear:parallel_simple_gla"),
    *_same(
        "fla.modules.fused_linear_cross_entropy.ops", "losses",
        "fused_linear_cross_entropy_fwd", "fused_linear_cross_entropy_bwd",
    ),
    *_same("fla.modules.fused_cross_entropy.ops", "losses", "cross_entropy_loss"),
    Hook("fla.ops.attn.parallel", "parallel_attn_fwd", "ops_attention:parallel_attn_fwd", "attn"),
    Hook("fla.ops.attn.parallel", "parallel_attn_bwd", "ops_attention:parallel_attn_bwd", "attn"),
    Hook(
        "fla.ops.generalized_delta_rule.dplr.chunk", "chunk_dplr_delta_rule",
        "ops_rwkv7:chunk_dplr_delta_rule", "generalized_delta_rule.dplr",
    ),
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
    Hook(
        "fla.ops.delta_rule.fused_recurrent", "fused_recurrent_delta_rule", "ops_linear:delta_rule"
    ),
    Hook(
        "fla.ops.gated_delta_rule.fused_recurrent", "fused_recurrent_gated_delta_rule",
        "ops_linear:gated_delta_rule",
    ),
    Hook("fla.ops.kda.fused_recurrent", "fused_recurrent_kda", "ops_linear:kda"),
    Hook(
        "fla.ops.gated_delta_product.chunk", "chunk_gated_delta_product",
        "ops_linear:gated_delta_product",
    ),
    *_same("fla.modules.token_shift", "ops_rwkv7", "token_shift"),
    *_same("fla.ops.rwkv7.fused_recurrent", "ops_rwkv7", "fused_mul_recurrent_rwkv7"),
    *_same("fla.ops.rwkv7.fused_addcmul", "ops_rwkv7", "fused_addcmul_rwkv7"),
    *_same("fla.ops.rwkv7.fused_k_update", "ops_rwkv7", "fused_k_rwkv7"),
    *_same("fla.ops.rwkv7.gate_output_correction", "ops_rwkv7", "gate_output_correction"),
    *_same("fla.ops.comba.fused_recurrent", "ops_rwkv7", "fused_recurrent_comba"),
    Hook("fla.ops.comba.chunk", "chunk_comba", "ops_rwkv7:comba"),
    Hook("fla.ops.rwkv6.chunk", "chunk_rwkv6", "ops_other:rwkv6"),
    Hook("fla.ops.rwkv6.fused_recurrent", "fused_recurrent_rwkv6", "ops_other:rwkv6"),
    Hook("fla.ops.hgrn.chunk", "chunk_hgrn", "ops_other:hgrn"),
    Hook("fla.ops.hgrn.fused_recurrent", "fused_recurrent_hgrn", "ops_other:hgrn"),
    Hook("fla.ops.gsa.chunk", "chunk_gsa", "ops_other:gsa"),
    Hook("fla.ops.gsa.fused_recurrent", "fused_recurrent_gsa", "ops_other:gsa"),
    *_same("fla.ops.based.parallel", "ops_other", "parallel_based"),
    *_same("fla.ops.rebased.parallel", "ops_other", "parallel_rebased"),
    *_same("fla.ops.mesa_net.chunk", "ops_mesa", "chunk_mesa_net"),
    *_same("fla.ops.mesa_net.decoding_one_step", "ops_mesa", "mesa_net_decoding_one_step"),
    *_same("fla.ops.path_attn.parallel", "ops_path", "parallel_path_attn"),
    *_same("fla.ops.attn.decoding", "ops_attention", "attn_decoding_one_step"),
)  # fmt: skip

METHODS: tuple[Hook, ...] = (
    Hook("fla.layers.mamba", "Mamba.slow_forward", "mamba:mamba_forward"),
    Hook("fla.layers.mamba2", "Mamba2.torch_forward", "mamba:mamba2_forward"),
    Hook(
        "fla.modules.fused_cross_entropy.ops",
        "FusedCrossEntropyLoss.forward",
        "losses:cross_entropy_forward",
    ),
)

SUPPLIED: tuple[Hook, ...] = _same(
    "fla.layers.attn", "ops_attention", "flash_attn_func", "flash_attn_varlen_func"
)
