"""The transformer of the published runs: attention with rotary positions, then a gated MLP.

Queries and keys are RMS-normalised (Henry et al. 2020), positions turn with base 1,000, and the MLP
is a SwiGLU four times as wide as the layer. The stack adds the residual, and its norm after that;
the recurrent layers of the same runs have no MLP. How the MLP joins the residual is not published:
here it reads what attention has made of the residual, and is added to it.
"""

import torch
import torch.nn.functional as F
from torch import nn

NAME = "Transformer (published)"
PAPER = "https://arxiv.org/abs/2601.12598"
AUTHORS = "Younes Bouhadjar, Maxime Fabre, Felix Schmidt, Emre Neftci"
TAGS = ["attention", "softmax", "published"]

BASE, WIDER = 1_000, 4


class Mixer(nn.Module):
    """(B, T, d_model) to (B, T, d_model)."""

    def __init__(self, spec):
        super().__init__()
        d, self.heads = spec.d_model, spec.n_heads
        self.qkv, self.out = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.q_norm, self.k_norm = nn.RMSNorm(d // self.heads), nn.RMSNorm(d // self.heads)
        self.norm = nn.RMSNorm(d)
        self.gate, self.up = (nn.Linear(d, WIDER * d, bias=False) for _ in range(2))
        self.down = nn.Linear(WIDER * d, d, bias=False)
        half = d // self.heads // 2
        angle = torch.outer(torch.arange(spec.max_length), BASE ** -(torch.arange(half) / half))
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def rotate(self, x):
        """RoPE (Su et al. 2021) on (B, H, T, K); an odd channel that is left over stays."""
        half, cos, sin = self.cos.shape[1], self.cos[: x.shape[2]], self.sin[: x.shape[2]]
        a, b, rest = x.split((half, half, x.shape[-1] - 2 * half), dim=-1)
        return torch.cat((a * cos - b * sin, a * sin + b * cos, rest), dim=-1)

    def attend(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = self.rotate(self.q_norm(q)), self.rotate(self.k_norm(k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))

    def forward(self, x):
        y = self.attend(x)
        h = self.norm(x + y)
        return y + self.down(F.silu(self.gate(h)) * self.up(h))


def state_size(spec):
    """Keys and values of every step up to the longest sequence."""
    return 2 * spec.d_model * spec.max_length
