"""The yardstick of recurrence: an LSTM of the entry's width."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class Mixer(nn.Module):
    """(B, T, d_model) to (B, T, d_model)."""

    def __init__(self, spec: Any) -> None:
        super().__init__()
        self.lstm = nn.LSTM(spec.d_model, spec.d_model, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.lstm(x)[0]
        return y

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """The next steps of every sequence, from where ``state`` left off (None: the beginning)."""
        y, state = self.lstm(x, state)
        return y, state
