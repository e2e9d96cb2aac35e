"""DeltaNet: linear attention that overwrites instead of adding.

A head keeps `S = S + beta k (v - S^T k)^T`: it looks up what is stored under the key, and replaces
a part `beta` of it by the new value. Both the key and `beta` come from the token, so the layer
chooses what to write and which old memory to erase for it, and `beta` near zero ignores a token. It
has no decay: what no later key touches stays for ever.
"""

from typing import Any

from fla.layers import DeltaNet

NAME = "DeltaNet"
PAPER = "https://arxiv.org/abs/2406.06484"
AUTHORS = "Songlin Yang, Bailin Wang, Yu Zhang, Yikang Shen, Yoon Kim"
TAGS = ["delta rule", "selective", "recurrent"]

CONV = 4


class Mixer(DeltaNet):
    def __init__(self, spec: Any) -> None:
        super().__init__(
            hidden_size=spec.d_model,
            num_heads=spec.n_heads,
            conv_size=CONV,
            layer_idx=spec.layer_index,
        )


def state_size(spec: Any) -> int:
    """One matrix per head, and the last inputs of the convolutions over q, k and v."""
    return spec.d_model * (spec.d_model // spec.n_heads) + 3 * spec.d_model * CONV
