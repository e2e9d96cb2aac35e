"""LSTM (Hochreiter & Schmidhuber 1997): the forget and input gates are functions of the input.

It is selective by construction: on filler the input gate closes and the forget gate stays open. With
the forget gate's bias at 0 the cell starts by forgetting half at each step, and credit for a symbol
60 steps back is 2**-60; at 1 it learns selective copy in half the steps (Jozefowicz et al. 2015).
"""

import torch
from torch import nn

NAME = "LSTM"
PAPER = "https://doi.org/10.1162/neco.1997.9.8.1735"
AUTHORS = "Hochreiter, Schmidhuber"
TAGS = ["recurrent", "gated", "nonlinear"]


class Mixer(nn.Module):
    """(B, T, d_model) to (B, T, d_model)."""

    def __init__(self, spec):
        super().__init__()
        d = spec.d_model
        self.lstm = nn.LSTM(d, d, batch_first=True)
        with torch.no_grad():
            self.lstm.bias_ih_l0[d : 2 * d] = 1.0  # gate order: input, forget, cell, output

    def forward(self, x):
        return self.lstm(x)[0]


def state_size(spec):
    """Hidden and cell state."""
    return 2 * spec.d_model
