"""GRU (Cho et al. 2014): one update gate decides, at every step, to keep the state or to replace it.

Keeping is exact when the gate is shut, so filler costs nothing; the gate sees the input and the state.
"""

from torch import nn

NAME = "GRU"
PAPER = "https://arxiv.org/abs/1406.1078"
AUTHORS = "Cho, van Merrienboer, Gulcehre, Bahdanau, Bougares, Schwenk, Bengio"
TAGS = ["recurrent", "gated", "nonlinear"]


class Mixer(nn.Module):
    """(B, T, d_model) to (B, T, d_model)."""

    def __init__(self, spec):
        super().__init__()
        self.gru = nn.GRU(spec.d_model, spec.d_model, batch_first=True)

    def forward(self, x):
        return self.gru(x)[0]


def state_size(spec):
    """The hidden state."""
    return spec.d_model
