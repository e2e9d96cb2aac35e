"""Mamba-2 as in the published runs: expansion 2, a convolution of 4, a state of 128 by default.

`submissions/mamba2.py` says how the layer selects; here are the published sizes. A training that gives
a state size goes before 128: distractors ran with 64. A head is as wide as the layer over its heads.
"""

from typing import Any

from fla.layers import Mamba2

NAME = "Mamba-2 (published)"
PAPER = "https://arxiv.org/abs/2405.21060"
AUTHORS = "Tri Dao, Albert Gu"
TAGS = ["ssm", "selective", "recurrent", "published"]

STATE, CONV = 128, 4


class Mixer(Mamba2):
    def __init__(self, spec: Any) -> None:
        super().__init__(
            hidden_size=spec.d_model,
            expand=2,
            head_dim=spec.d_model // spec.n_heads,
            num_heads=2 * spec.n_heads,
            state_size=spec.d_state or STATE,
            conv_kernel=CONV,
            layer_idx=spec.layer_index,
        )


def state_size(spec: Any) -> int:
    """The heads' matrices, and the last inputs of the convolution over x, B and C."""
    inner, state = 2 * spec.d_model, spec.d_state or STATE
    return inner * state + (inner + 2 * state) * CONV
