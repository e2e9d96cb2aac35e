"""Mamba as in the published runs: expansion 2, a convolution of 4, 64 numbers for each channel.

`submissions/mamba.py` says how the layer selects; here are the published sizes. A training that gives
a state size (`selectivbench train --d-state`, or a task of the profile) goes before 64: the sweep over
model sizes ran with 128.
"""

from typing import Any

from fla.layers import Mamba

NAME = "Mamba (published)"
PAPER = "https://arxiv.org/abs/2312.00752"
AUTHORS = "Albert Gu, Tri Dao"
TAGS = ["ssm", "selective", "recurrent", "published"]

STATE, CONV = 64, 4


class Mixer(Mamba):
    def __init__(self, spec: Any) -> None:
        super().__init__(
            hidden_size=spec.d_model,
            intermediate_size=2 * spec.d_model,
            state_size=spec.d_state or STATE,
            conv_kernel=CONV,
            layer_idx=spec.layer_index,
        )


def state_size(spec: Any) -> int:
    """The states of all channels, and the last inputs of the convolution."""
    return 2 * spec.d_model * ((spec.d_state or STATE) + CONV)
