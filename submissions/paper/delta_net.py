"""DeltaNet as in the published runs: values twice as wide, a convolution of 4, in bfloat16.

`submissions/delta_net.py` says how the layer selects; here are the published sizes. The whole model
is in bfloat16 on CUDA, parameters too, as the published runs of the delta rule were.
"""

from typing import Any

from fla.layers import DeltaNet

NAME = "DeltaNet (published)"
PAPER = "https://arxiv.org/abs/2406.06484"
AUTHORS = "Songlin Yang, Bailin Wang, Yu Zhang, Yikang Shen, Yoon Kim"
TAGS = ["delta rule", "selective", "recurrent", "published"]
TRAIN = {"dtype": "bfloat16"}

CONV = 4


class Mixer(DeltaNet):
    def __init__(self, spec: Any) -> None:
        super().__init__(
            hidden_size=spec.d_model,
            num_heads=spec.n_heads,
            expand_v=2.0,
            conv_size=CONV,
            layer_idx=spec.layer_index,
        )


def state_size(spec: Any) -> int:
    """One matrix per head, and the last inputs of the convolutions over q, k and v."""
    return 2 * spec.d_model * (spec.d_model // spec.n_heads) + 4 * spec.d_model * CONV
