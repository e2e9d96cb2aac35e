"""Gated DeltaProduct as in the published runs: four delta steps for one token, in bfloat16.

`submissions/gated_delta_product.py` says how the layer selects; here are the published sizes: values
twice as wide, a convolution of 4, four Householder steps. The whole model is in bfloat16 on CUDA,
parameters too, as the published runs of the delta rule were.
"""

from typing import Any

from fla.layers import GatedDeltaProduct

NAME = "Gated DeltaProduct (published)"
PAPER = "https://arxiv.org/abs/2502.10297"
AUTHORS = "Julien Siems, Timur Carstensen, Arber Zela, Frank Hutter, Massimiliano Pontil, R. Grazzi"
TAGS = ["delta rule", "selective", "recurrent", "published"]
TRAIN = {"dtype": "bfloat16"}

STEPS, CONV = 4, 4


class Mixer(GatedDeltaProduct):
    def __init__(self, spec: Any) -> None:
        super().__init__(
            hidden_size=spec.d_model,
            num_heads=spec.n_heads,
            head_dim=spec.d_model // spec.n_heads,
            expand_v=2.0,
            num_householder=STEPS,
            conv_size=CONV,
            layer_idx=spec.layer_index,
        )


def state_size(spec: Any) -> int:
    """One matrix per head, and the inputs of the convolutions: one of q, STEPS of k and of v."""
    head = spec.d_model // spec.n_heads
    return 2 * spec.d_model * head + (1 + 3 * STEPS) * spec.d_model * CONV
