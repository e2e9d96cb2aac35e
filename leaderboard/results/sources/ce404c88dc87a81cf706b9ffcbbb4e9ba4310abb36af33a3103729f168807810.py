"""RWKV-7: a delta rule in which the removed key, the written key and the decay are all separate.

A head keeps `S = diag(w) S - kk (a kk)^T S + k v^T`: decay per row, in-context learning rate `a`,
removal key and written key all come from a mix of the token and the one before it. Selection is
spread over all of them. The decay is bounded: no row loses more than 46 % in one step.

Every layer is built as a first layer: the value that RWKV-7 hands from its first layer to the later
ones would have to travel beside the residual stream, and the harness has only that stream.
"""

import warnings
from typing import Any

from fla.layers import RWKV7Attention

NAME = "RWKV-7"
PAPER = "https://arxiv.org/abs/2503.14456"
AUTHORS = "Bo Peng, Ruichong Zhang, Daniel Goldstein, and others"
TAGS = ["delta rule", "selective", "recurrent"]

RANK = 16


class Mixer(RWKV7Attention):
    def __init__(self, spec: Any) -> None:
        with warnings.catch_warnings():
            # fla says that its RWKV-7 may differ from the authors' own; the leaderboard names fla.
            warnings.simplefilter("ignore", UserWarning)
            super().__init__(
                hidden_size=spec.d_model,
                head_dim=spec.d_model // spec.n_heads,
                decay_low_rank_dim=RANK,
                gate_low_rank_dim=RANK,
                a_low_rank_dim=RANK,
                num_hidden_layers=max(2, spec.n_layers),
                layer_idx=0,
            )


def state_size(spec: Any) -> int:
    """One matrix per head, and the last token."""
    return spec.d_model * (spec.d_model // spec.n_heads) + spec.d_model
