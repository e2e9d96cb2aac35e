"""Kimi Delta Attention: Gated DeltaNet with a forgetting rate for every key dimension.

A head keeps `S = S~ + beta k (v - S~^T k)^T` with `S~ = diag(exp(g)) S`: the decay `g` of Gated
DeltaNet is one number per head, here it is one per row of the memory, computed through a low-rank
map of the token. The layer can thus hold some rows through thousands of fillers while others follow
the last few tokens, and still overwrite exactly.
"""

from typing import Any

from fla.layers import KimiDeltaAttention

NAME = "KDA"
PAPER = "https://arxiv.org/abs/2510.26692"
AUTHORS = "Kimi Team"
TAGS = ["delta rule", "selective", "recurrent"]

CONV = 4


class Mixer(KimiDeltaAttention):
    def __init__(self, spec: Any) -> None:
        super().__init__(
            hidden_size=spec.d_model,
            num_heads=spec.n_heads,
            head_dim=spec.d_model // spec.n_heads,
            conv_size=CONV,
            layer_idx=spec.layer_index,
        )


def state_size(spec: Any) -> int:
    """One matrix per head, and the last inputs of the convolutions over q, k and v."""
    return spec.d_model * (spec.d_model // spec.n_heads) + 3 * spec.d_model * CONV
