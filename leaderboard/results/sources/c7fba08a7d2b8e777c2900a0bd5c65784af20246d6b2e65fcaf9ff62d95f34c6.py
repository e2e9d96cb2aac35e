"""HGRN2: a gated recurrence in which the forget gate is also the key.

A head keeps `S = diag(f) S + (1 - f) v^T` and reads it with `q`; `f` is a sigmoid of the token, one
number per row. Writing and forgetting are one decision: a row that keeps its past (`f` near one)
takes nothing in, and a row that takes something in gives up its past. That makes ignoring a token
natural: one saturated gate does it. In deep models fla bounds the gate of later layers from below;
here every layer is free.
"""

from typing import Any

from fla.layers import HGRN2Attention

NAME = "HGRN2"
PAPER = "https://arxiv.org/abs/2404.07904"
AUTHORS = "Zhen Qin, Songlin Yang, Weixuan Sun, Xuyang Shen, Dong Li, Weigao Sun, Yiran Zhong"
TAGS = ["gated rnn", "selective", "recurrent"]


class Mixer(HGRN2Attention):
    def __init__(self, spec: Any) -> None:
        super().__init__(
            hidden_size=spec.d_model,
            expand_ratio=spec.d_model // spec.n_heads,
            layer_idx=spec.layer_index,
        )


def state_size(spec: Any) -> int:
    """One matrix per head."""
    return spec.d_model * (spec.d_model // spec.n_heads)
