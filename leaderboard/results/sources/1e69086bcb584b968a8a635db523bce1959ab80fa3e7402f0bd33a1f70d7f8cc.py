"""S4D (Gu et al. 2022), diagonal and time-invariant: y = k * x, with one fixed kernel per channel.

k[t] = Re(sum_n C_n exp(t A_n dt) B_n), a sum of damped waves that does not depend on the input. What
it keeps is decided by *when* a symbol came, not by *what* it was, so where symbols stand at random
positions it cannot line them up: it stalls on selective copy, and that is the point of this file.
"""

import math

import torch
from torch import nn

NAME = "S4D"
PAPER = "https://arxiv.org/abs/2206.11893"
AUTHORS = "Gu, Gupta, Goel, Re"
TAGS = ["state space", "linear", "time-invariant"]
TRAIN = {"lr": 2e-2}
EXPECTED_FAIL = ["selective_copy-v1"]

STATE = 4  # complex modes a channel, as in the textbook


class Mixer(nn.Module):
    """(B, T, d_model) to (B, T, d_model), by one FFT convolution and a gated output layer."""

    def __init__(self, spec):
        super().__init__()
        d = spec.d_model
        self.log_dt = nn.Parameter(torch.empty(d).uniform_(math.log(1e-3), math.log(1e-1)))
        self.log_decay = nn.Parameter(torch.full((d, STATE), math.log(0.5)))
        self.frequency = nn.Parameter(math.pi * torch.arange(STATE).float().repeat(d, 1))  # S4D-Lin
        self.c = nn.Parameter(torch.randn(d, STATE, 2) * 0.5**0.5)
        self.skip = nn.Parameter(torch.ones(d))
        self.out = nn.Sequential(nn.GELU(), nn.Linear(d, 2 * d), nn.GLU(dim=-1))

    def kernel(self, length):
        """(d, T) real: the zero-order-hold impulse response."""
        a = torch.complex(-self.log_decay.exp(), self.frequency)
        a_dt = a * self.log_dt.exp()[:, None]
        b = (a_dt.exp() - 1) / a  # zero-order hold, with B = 1
        powers = (a_dt[..., None] * torch.arange(length, device=a.device)).exp()
        return 2 * torch.einsum("dn,dnt->dt", torch.view_as_complex(self.c) * b, powers).real

    def forward(self, x):
        n = 2 * x.shape[1]  # twice the length: no wrap-around
        u = x.transpose(1, 2)
        y = torch.fft.irfft(torch.fft.rfft(u, n) * torch.fft.rfft(self.kernel(x.shape[1]), n), n)
        y = y[..., : x.shape[1]] + u * self.skip[:, None]
        return self.out(y.transpose(1, 2))


def state_size(spec):
    """Complex modes, as two floats each."""
    return 2 * STATE * spec.d_model
