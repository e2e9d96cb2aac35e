"""RetNet: linear attention that forgets at a fixed rate, so it is *not* selective.

A head keeps `S = gamma S + k v^T` with one constant `gamma` per head, between 1 - 1/32 and almost
1. How long something is remembered therefore depends on when it was seen and never on what it was:
a filler token pushes out as much as a symbol does. The queries and keys are rotated by position.
It is here as the time-invariant neighbour of GLA and Mamba-2, which make the same decay depend on
the input.
"""

from typing import Any

from fla.layers import MultiScaleRetention

NAME = "RetNet"
PAPER = "https://arxiv.org/abs/2307.08621"
AUTHORS = "Yutao Sun, Li Dong, Shaohan Huang, Shuming Ma, Yuqing Xia, Jilong Xue, Furu Wei"
TAGS = ["linear attention", "time-invariant", "recurrent"]


class Mixer(MultiScaleRetention):
    def __init__(self, spec: Any) -> None:
        super().__init__(
            hidden_size=spec.d_model,
            num_heads=spec.n_heads,
            expand_k=1.0,
            expand_v=1.0,
            layer_idx=spec.layer_index,
        )


def state_size(spec: Any) -> int:
    """One matrix per head."""
    return spec.d_model * (spec.d_model // spec.n_heads)
