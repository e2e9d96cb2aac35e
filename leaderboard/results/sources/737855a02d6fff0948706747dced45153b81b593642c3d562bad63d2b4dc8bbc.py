"""Mamba: a diagonal state space whose step size depends on the input.

Each of `2 d_model` channels keeps sixteen numbers, `h = exp(dt A) h + dt B x`. The step `dt`, the
write direction `B` and the read direction `C` are computed from the input. A step near zero leaves
the state as it is (the token is ignored), a large one forgets the past and writes the token: this
choice at every token is what the paper calls selection, and what an S4 layer, whose step is a
constant, cannot make.
"""

from typing import Any

from fla.layers import Mamba

NAME = "Mamba"
PAPER = "https://arxiv.org/abs/2312.00752"
AUTHORS = "Albert Gu, Tri Dao"
TAGS = ["ssm", "selective", "recurrent"]

STATE, CONV = 16, 4


class Mixer(Mamba):
    def __init__(self, spec: Any) -> None:
        super().__init__(
            hidden_size=spec.d_model,
            intermediate_size=2 * spec.d_model,  # fla's default is 2048, whatever the width
            state_size=STATE,
            conv_kernel=CONV,
            layer_idx=spec.layer_index,
        )


def state_size(spec: Any) -> int:
    """The states of all channels, and the last inputs of the convolution."""
    return 2 * spec.d_model * (STATE + CONV)
