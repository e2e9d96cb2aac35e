"""Gated DeltaNet: the delta rule for exact edits, and a gate to clear everything at once.

A head keeps `S = S~ + beta k (v - S~^T k)^T` with `S~ = exp(g) S`. The decay `g`, computed as in
Mamba-2, forgets all of the memory when the context changes; the delta step replaces what is stored
under one key and leaves the rest alone. Both strengths come from the token, so a filler can be
passed over by `beta` near zero and `g` near zero.
"""

from typing import Any

from fla.layers import GatedDeltaNet

NAME = "Gated DeltaNet"
PAPER = "https://arxiv.org/abs/2412.06464"
AUTHORS = "Songlin Yang, Jan Kautz, Ali Hatamizadeh"
TAGS = ["delta rule", "selective", "recurrent"]

CONV = 4


class Mixer(GatedDeltaNet):
    def __init__(self, spec: Any) -> None:
        super().__init__(
            hidden_size=spec.d_model,
            num_heads=spec.n_heads,
            head_dim=spec.d_model // spec.n_heads,
            expand_v=1.0,
            conv_size=CONV,
            layer_idx=spec.layer_index,
        )


def state_size(spec: Any) -> int:
    """One matrix per head, and the last inputs of the convolutions over q, k and v."""
    return spec.d_model * (spec.d_model // spec.n_heads) + 3 * spec.d_model * CONV
