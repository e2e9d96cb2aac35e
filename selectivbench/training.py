"""The one training loop: every entry gets the same steps, batches, optimiser and schedule."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from selectivbench.backbone import check_logits
from selectivbench.batch import IGNORE
from selectivbench.errors import SubmissionError, explain


@dataclass(frozen=True)
class TrainConfig:
    """steps, peak rate, warm-up steps, and the norm that gradients are clipped to."""

    steps: int
    lr: float
    warmup: int
    clip: float

    def rate(self, step: int) -> float:
        """Learning rate of step 0, 1, …: linear warm-up, then cosine to 0 at ``steps``.

        >>> config = TrainConfig(steps=110, lr=1.0, warmup=10, clip=1.0)
        >>> [round(config.rate(s), 3) for s in (0, 9, 10, 60, 109)]
        [0.1, 1.0, 1.0, 0.5, 0.0]
        """
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        progress = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.lr * 0.5 * (1 + math.cos(math.pi * progress))


def adam(parameters: list[nn.Parameter], lr: float) -> torch.optim.Adam:
    """The optimiser of every entry; fused where torch can."""
    fused = not any(p.is_complex() for p in parameters)  # torch refuses the pair
    return torch.optim.Adam(parameters, lr=lr, fused=fused)


class Trainer:
    """A model with its optimiser; steps through batches and predicts.

    Nothing here waits for the device: losses stay tensors until ``mean_loss`` is asked for.
    """

    def __init__(self, model: nn.Module, config: TrainConfig, n_classes: int, device: str) -> None:
        self.model, self.config = model.to(device), config
        self.n_classes, self.device = n_classes, device
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimiser = adam(self.parameters, config.lr)
        self.steps_done = 0
        self._losses: list[Tensor] = []

    def step(self, inputs: NDArray[np.float32], targets: NDArray[np.int32]) -> None:
        """One update on inputs (B, T, n_inputs), targets (B, T) with IGNORE where there is no loss."""
        self.model.train()
        for group in self.optimiser.param_groups:
            group["lr"] = self.config.rate(self.steps_done)
        logits = self._logits(inputs)
        wanted = torch.from_numpy(targets.astype(np.int64)).to(self.device, non_blocking=True)
        loss = F.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten(), ignore_index=IGNORE)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.parameters, self.config.clip)
        self.optimiser.step()
        self.steps_done += 1
        self._losses.append(loss.detach())

    def mean_loss(self) -> float:
        """Mean training loss (nats) since the last call; waits for the device."""
        mean = float(torch.stack(self._losses).mean()) if self._losses else math.nan
        self._losses.clear()
        return mean

    def predict(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits (B, T, n_classes) float32 of inputs (B, T, n_inputs), in evaluation mode."""
        self.model.eval()
        with torch.no_grad():  # a tensor cached under inference_mode would break training after it
            return np.asarray(self._logits(inputs).float().cpu().numpy())

    def state(self) -> NDArray[np.uint8]:
        """Every tensor of the model, buffers too, as safetensors bytes; shared ones several times."""
        from safetensors.torch import save

        tensors = self.model.state_dict()
        foreign = [name for name, value in tensors.items() if not isinstance(value, Tensor)]
        if foreign:
            raise SubmissionError(explain("state_dict()", foreign[0], "tensors only"))
        copies = {
            name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()
        }
        return np.frombuffer(save(copies), dtype=np.uint8)

    def load(self, state: NDArray[np.uint8]) -> None:
        """Take over the state that ``state`` of another process gave."""
        from safetensors.torch import load

        self.model.load_state_dict(load(state.tobytes()))

    def _logits(self, inputs: NDArray[np.float32]) -> Tensor:
        x = torch.from_numpy(inputs).to(self.device, non_blocking=True)
        return check_logits(self.model(x), x.shape[0], x.shape[1], self.n_classes)
