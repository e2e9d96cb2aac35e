"""Mamba-2: selection with one decay per head, which makes the scan a gated linear attention.

A head keeps a matrix `S = exp(dt A) S + B (dt x)^T` and reads it with `C`. As in Mamba, the step
`dt` and the directions `B` and `C` come from the input; unlike Mamba, all channels of a head forget
at the same rate. What is lost in freedom is won in size: the state holds `d_state` numbers for
every channel at little cost. The layer ignores a token when its `dt` is near zero.
"""

from typing import Any

from fla.layers import Mamba2

NAME = "Mamba-2"
PAPER = "https://arxiv.org/abs/2405.21060"
AUTHORS = "Tri Dao, Albert Gu"
TAGS = ["ssm", "selective", "recurrent"]

STATE, CONV = 32, 4


class Mixer(Mamba2):
    def __init__(self, spec: Any) -> None:
        super().__init__(
            hidden_size=spec.d_model,
            expand=2,
            head_dim=spec.d_model // spec.n_heads,
            state_size=STATE,
            conv_kernel=CONV,
            layer_idx=spec.layer_index,
        )


def state_size(spec: Any) -> int:
    """The heads' matrices, and the last inputs of the convolution over x, B and C."""
    inner = 2 * spec.d_model
    return inner * STATE + (inner + 2 * STATE) * CONV
