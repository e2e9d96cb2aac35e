"""Gated DeltaProduct: several delta steps for one token.

Where Gated DeltaNet edits its memory once per token, this layer does it `STEPS` times, each with a
key, a value and a strength of its own, after one shared decay. The product of several reflections
can rotate the memory, which one step cannot; with strengths up to two (negative eigenvalues) it can
track states such as parities and permutations. It selects as Gated DeltaNet does: all strengths
near zero ignore the token.
"""

from typing import Any

from fla.layers import GatedDeltaProduct

NAME = "Gated DeltaProduct"
PAPER = "https://arxiv.org/abs/2502.10297"
AUTHORS = "Julien Siems, Timur Carstensen, Arber Zela, Frank Hutter, Massimiliano Pontil, R. Grazzi"
TAGS = ["delta rule", "selective", "recurrent"]

STEPS, CONV = 2, 4


class Mixer(GatedDeltaProduct):
    def __init__(self, spec: Any) -> None:
        super().__init__(
            hidden_size=spec.d_model,
            num_heads=spec.n_heads,
            head_dim=spec.d_model // spec.n_heads,
            expand_v=1.0,
            num_householder=STEPS,
            conv_size=CONV,
            layer_idx=spec.layer_index,
        )


def state_size(spec: Any) -> int:
    """One matrix per head, and the inputs of the convolutions: one of q, STEPS of k and of v."""
    head = spec.d_model // spec.n_heads
    return spec.d_model * head + (1 + 2 * STEPS) * spec.d_model * CONV
