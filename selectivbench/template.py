"""The submission that ``selectivbench new`` writes: small, and it runs as it is."""

from __future__ import annotations

from pathlib import Path

from selectivbench.errors import UsageError, explain

TEXT = '''"""What this layer keeps, and how it ignores the rest."""

import torch
from torch import nn

NAME = "{name}"
TAGS = ["recurrent", "gated"]


class Mixer(nn.Module):
    """(B, T, d_model) to (B, T, d_model): a gated leaky integrator, one per channel.

    h[t] = g[t] * h[t-1] + (1 - g[t]) * v[t], with the gate g a function of the input.
    """

    def __init__(self, spec):
        super().__init__()
        d = spec.d_model  # also: n_layers, layer_index, max_length, n_heads
        self.gate, self.value, self.out = (nn.Linear(d, d) for _ in range(3))

    def forward(self, x):
        gates, values = torch.sigmoid(self.gate(x) + 2), self.value(x)
        state, states = torch.zeros_like(x[:, 0]), []
        for g, v in zip(gates.unbind(1), values.unbind(1), strict=True):
            state = g * state + (1 - g) * v
            states.append(state)
        return self.out(torch.stack(states, dim=1))


def state_size(spec):
    """Floats carried per layer and sequence at inference."""
    return spec.d_model


def probe(module, x):
    """What `selectivbench probe` shows of this layer: numbers of shape (B, T, channels), by name."""
    return {{"gate": torch.sigmoid(module.gate(x) + 2)}}
'''


def write(path: Path) -> str:
    """Write the template to a new file and say how to run it; never overwrites."""
    if path.suffix != ".py" or not path.stem.isidentifier():
        raise UsageError(explain("file", str(path), "a name such as mine.py"))
    if path.exists():
        raise UsageError(explain("file", f"{path}, which exists", "a new file"))
    try:
        path.write_text(TEXT.format(name=path.stem), encoding="utf-8")
    except OSError as error:
        raise UsageError(
            explain("file", f"{path} ({error.strerror})", "a writable place")
        ) from error
    return f"{path} is written; try it: pytest --selectiv-model={path} --selectiv-profile=smoke"
