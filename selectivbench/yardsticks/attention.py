"""The yardstick of looking back at everything: causal softmax attention of the entry's width."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Mixer(nn.Module):
    """(B, T, d_model) to (B, T, d_model)."""

    def __init__(self, spec: Any) -> None:
        super().__init__()
        self.heads = spec.n_heads
        self.qkv = nn.Linear(spec.d_model, 3 * spec.d_model, bias=False)
        self.out = nn.Linear(spec.d_model, spec.d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self._heads(x)
        return self._joined(F.scaled_dot_product_attention(q, k, v, is_causal=True))

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """The next steps of every sequence; the state is all keys and values so far (None: none)."""
        q, k, v = self._heads(x)
        if state is None:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self._joined(y), (k, v)
        k, v = torch.cat((state[0], k), dim=2), torch.cat((state[1], v), dim=2)
        return self._joined(F.scaled_dot_product_attention(q, k, v)), (k, v)

    def _heads(self, x: Tensor) -> Tensor:
        split = self.qkv(x).unflatten(-1, (3, self.heads, -1))  # (B, T, 3, H, K)
        return split.permute(2, 0, 3, 1, 4)  # type: ignore[no-any-return]

    def _joined(self, y: Tensor) -> Tensor:
        joined: Tensor = self.out(y.transpose(1, 2).flatten(2))
        return joined
