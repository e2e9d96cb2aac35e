"""Linear attention: a sum over all tokens that never forgets, the baseline without selection.

A head keeps `S = S + phi(k) v^T`, where `phi` is a learned product feature map, and reads
it with `phi(q)`. Every token is added with weight one and nothing is ever removed. It can still
pass over a filler, by a value near zero, since the value is computed from the token; but it has no
gate, no decay, no erasing step and no position, so what is outdated stays in the sum for good.
"""

from typing import Any

from fla.layers import LinearAttention

NAME = "Linear attention"
PAPER = "https://arxiv.org/abs/2006.16236"
AUTHORS = "Angelos Katharopoulos, Apoorv Vyas, Nikolaos Pappas, François Fleuret"
TAGS = ["linear attention", "ungated", "recurrent"]
EXPECTED_FAIL = ["noisy_gaps-v2", "distractors-v1"]


class Mixer(LinearAttention):
    def __init__(self, spec: Any) -> None:
        super().__init__(
            hidden_size=spec.d_model,
            num_heads=spec.n_heads,
            layer_idx=spec.layer_index,
        )


def state_size(spec: Any) -> int:
    """One matrix per head."""
    return spec.d_model * (spec.d_model // spec.n_heads)
