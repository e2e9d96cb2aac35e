"""Forgetting Transformer: softmax attention whose scores fade at a rate that the input chooses.

The score of query i for key j is `q_i k_j` plus the sum of the log forget gates between them. As in
any transformer nothing is compressed: all keys and values are kept, and selection is mostly done
when they are read. The gates add what softmax attention lacks, a way to drop everything before a
token, and they replace position embeddings. Its state grows with the sequence.
"""

from typing import Any

from fla.layers import ForgettingAttention

NAME = "Forgetting Transformer"
PAPER = "https://arxiv.org/abs/2503.02130"
AUTHORS = "Zhixuan Lin, Evgenii Nikishin, Xu Owen He, Aaron Courville"
TAGS = ["attention", "selective"]


class Mixer(ForgettingAttention):
    def __init__(self, spec: Any) -> None:
        super().__init__(
            hidden_size=spec.d_model,
            num_heads=spec.n_heads,
            layer_idx=spec.layer_index,
        )


def state_size(spec: Any) -> int:
    """Keys, values and one gate per head, for every step."""
    return spec.max_length * (2 * spec.d_model + spec.n_heads)
