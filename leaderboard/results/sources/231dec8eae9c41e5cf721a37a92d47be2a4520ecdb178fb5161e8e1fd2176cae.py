"""Gated linear attention: a matrix state whose rows fade at rates that the input chooses.

A head keeps `S = diag(exp(g)) S + k v^T` and answers with `S^T q`. The gate `g` has one number per
key dimension and is computed from the token, so the layer can clear some keys and hold others. It
cannot refuse a token by the gate alone: what it writes, `k v^T`, is small only when `k` or `v` is.
The gate logits are divided by sixteen, so a fresh layer forgets slowly.
"""

from typing import Any

from fla.layers import GatedLinearAttention

NAME = "GLA"
PAPER = "https://arxiv.org/abs/2312.06635"
AUTHORS = "Songlin Yang, Bailin Wang, Yikang Shen, Rameswar Panda, Yoon Kim"
TAGS = ["linear attention", "selective", "recurrent"]

CONV = 4


class Mixer(GatedLinearAttention):
    def __init__(self, spec: Any) -> None:
        super().__init__(
            hidden_size=spec.d_model,
            num_heads=spec.n_heads,
            expand_k=1.0,  # fla's 0.5 would give keys of 8, below what its GPU kernels take
            use_short_conv=True,
            conv_size=CONV,
            layer_idx=spec.layer_index,
        )


def state_size(spec: Any) -> int:
    """One matrix per head, and the last inputs of the convolutions over q, k and v."""
    return spec.d_model * (spec.d_model // spec.n_heads) + 3 * spec.d_model * CONV
