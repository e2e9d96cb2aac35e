"""MesaNet: at every token, the best linear map from keys to values, found by conjugate gradients.

A head keeps two matrices, `G = f G + beta k k^T` and `S = f S + beta k v^T`, and answers with
`S^T (G + lambda)^-1 q`: not the sum of what was seen but the regularised least-squares fit to it.
The forget gate `f` and the input gate `beta` come from the token, so `beta` near zero ignores it.
The solve costs up to thirty small matrix products per token, on a CPU and elsewhere.
"""

from typing import Any

from fla.layers import MesaNet

NAME = "MesaNet"
PAPER = "https://arxiv.org/abs/2506.05233"
AUTHORS = "Johannes von Oswald, Nino Scherrer, Seijin Kobayashi, and others"
TAGS = ["test-time regression", "selective", "recurrent"]

CONV = 4


class Mixer(MesaNet):
    def __init__(self, spec: Any) -> None:
        super().__init__(
            hidden_size=spec.d_model,
            num_heads=spec.n_heads,
            head_dim=spec.d_model // spec.n_heads,
            conv_size=CONV,
            layer_idx=spec.layer_index,
        )


def state_size(spec: Any) -> int:
    """Two matrices per head, and the last inputs of the convolutions over q and k."""
    return 2 * spec.d_model * (spec.d_model // spec.n_heads) + 2 * spec.d_model * CONV
