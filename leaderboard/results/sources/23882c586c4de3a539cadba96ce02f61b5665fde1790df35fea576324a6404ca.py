"""Causal softmax attention with rotary positions: it forgets nothing and looks up by content.

Its state grows with the sequence (keys and values of every step), which is why it is the yardstick
for memory and not for efficiency.
"""

import torch
import torch.nn.functional as F
from torch import nn

NAME = "Transformer"
PAPER = "https://arxiv.org/abs/1706.03762"
AUTHORS = "Vaswani, Shazeer, Parmar, Uszkoreit, Jones, Gomez, Kaiser, Polosukhin"
TAGS = ["attention", "softmax"]


class Mixer(nn.Module):
    """(B, T, d_model) to (B, T, d_model)."""

    def __init__(self, spec):
        super().__init__()
        d, self.heads = spec.d_model, spec.n_heads
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.out = nn.Linear(d, d, bias=False)
        half = d // self.heads // 2
        angle = torch.outer(torch.arange(spec.max_length), 10_000 ** -(torch.arange(half) / half))
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def rotate(self, x):
        """RoPE (Su et al. 2021) on (B, H, T, K): pairs of channels turn with the position."""
        a, b = x.chunk(2, dim=-1)
        cos, sin = self.cos[: x.shape[2]], self.sin[: x.shape[2]]
        return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)

    def forward(self, x):
        split = (*x.shape[:2], 3, self.heads, -1)
        q, k, v = self.qkv(x).view(split).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


def state_size(spec):
    """Keys and values of every step up to the longest sequence."""
    return 2 * spec.d_model * spec.max_length
