"""Gated linear attention as in the published runs: values twice as wide, a convolution of 4.

`submissions/gla.py` says how the layer selects; here are the published sizes. What was published of
this layer says nothing of the keys: they are as wide as the layer, which fla's GPU kernels need at
the smallest of the published widths no less than at the others.
"""

from typing import Any

from fla.layers import GatedLinearAttention

NAME = "GLA (published)"
PAPER = "https://arxiv.org/abs/2312.06635"
AUTHORS = "Songlin Yang, Bailin Wang, Yikang Shen, Rameswar Panda, Yoon Kim"
TAGS = ["linear attention", "selective", "recurrent", "published"]

CONV = 4


class Mixer(GatedLinearAttention):
    def __init__(self, spec: Any) -> None:
        super().__init__(
            hidden_size=spec.d_model,
            num_heads=spec.n_heads,
            expand_k=1.0,
            expand_v=2.0,
            use_short_conv=True,
            conv_size=CONV,
            layer_idx=spec.layer_index,
        )


def state_size(spec: Any) -> int:
    """One matrix per head, and the last inputs of the convolutions over q, k and v."""
    return 2 * spec.d_model * (spec.d_model // spec.n_heads) + 4 * spec.d_model * CONV
