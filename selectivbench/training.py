"""The one training loop: every entry gets the same steps, batches, optimiser and schedule."""

from __future__ import annotations

import math
from collections.abc import Mapping
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

    def __init__(
        self,
        model: nn.Module,
        config: TrainConfig,
        n_classes: int,
        device: str,
        dtype: str | None = None,
    ) -> None:
        self.dtype = torch.float32 if dtype is None else getattr(torch, dtype)
        self.model, self.config = model.to(device), config
        if dtype is not None:  # a submission's own mixture of types is left alone otherwise
            self.model.to(self.dtype)
        self.n_classes, self.device = n_classes, device
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimiser = adam(self.parameters, config.lr)
        self.steps_done, self.pieces = 0, 1
        self._losses: list[Tensor] = []

    def step(self, inputs: NDArray[np.float32], targets: NDArray[np.int32]) -> None:
        """One update on inputs (B, T, n_inputs), targets (B, T) with IGNORE where there is no loss."""
        self.model.train()
        for group in self.optimiser.param_groups:
            group["lr"] = self.config.rate(self.steps_done)
        self.optimiser.zero_grad(set_to_none=True)
        loss = self._gradients(inputs, targets)
        nn.utils.clip_grad_norm_(self.parameters, self.config.clip)
        self.optimiser.step()
        self.steps_done += 1
        self._losses.append(loss)

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

    def checkpoint(self) -> NDArray[np.uint8]:
        """All that the next step depends on, as safetensors bytes; asked for after ``mean_loss``.

        Model, moments of Adam, torch's generators, steps done. Randomness that a submission takes
        from elsewhere is not in it.
        """
        from safetensors.torch import save

        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for number, moments in self.optimiser.state_dict()["state"].items():
            tensors |= {f"adam.{number}.{name}": value for name, value in moments.items()}
        tensors["done"] = torch.tensor([self.steps_done, self.pieces])
        tensors["generator.cpu"] = torch.get_rng_state()
        if self.device != "cpu":
            tensors["generator.cuda"] = torch.cuda.get_rng_state()
        copies = {name: value.cpu().contiguous().clone() for name, value in tensors.items()}
        return np.frombuffer(save(copies), dtype=np.uint8)

    def resume(self, checkpoint: NDArray[np.uint8]) -> None:
        """Go on from where ``checkpoint`` of another process was."""
        from safetensors.torch import load

        tensors = load(checkpoint.tobytes())
        model, moments = _below(tensors, "model."), _below(tensors, "adam.")
        self.model.load_state_dict(model)
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in moments.items():
            number, _, moment = name.partition(".")
            state.setdefault(int(number), {})[moment] = value
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": state, "param_groups": groups})
        self.steps_done, self.pieces = tensors["done"].tolist()
        torch.set_rng_state(tensors["generator.cpu"])
        if "generator.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["generator.cuda"])

    def _gradients(self, inputs: NDArray[np.float32], targets: NDArray[np.int32]) -> Tensor:
        """The mean loss of a batch, with its gradients in place.

        Where memory does not suffice the batch is done in twice as many pieces, now and from now on.
        """
        while True:
            try:
                return self._in_pieces(inputs, targets)
            except RuntimeError as error:  # torch.OutOfMemoryError is one
                if not out_of_memory(error) or self.pieces >= len(inputs):
                    raise
            # Out of the handler, whose traceback would hold what was computed so far.
            self.pieces = min(2 * self.pieces, len(inputs))
            self.optimiser.zero_grad(set_to_none=True)
            if self.device != "cpu":
                torch.cuda.empty_cache()

    def _in_pieces(self, inputs: NDArray[np.float32], targets: NDArray[np.int32]) -> Tensor:
        """Each piece counts by its scored steps, so that the sum is the gradient of the whole."""
        scored = np.count_nonzero(targets != IGNORE)
        total = torch.zeros((), device=self.device)
        for rows in np.array_split(np.arange(len(inputs)), self.pieces):
            piece = slice(rows[0], rows[-1] + 1)
            if not (count := np.count_nonzero(targets[piece] != IGNORE)):
                continue  # the mean over no steps is no number
            loss = self._loss(inputs[piece], targets[piece]) * (count / scored)
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        return total

    def _loss(self, inputs: NDArray[np.float32], targets: NDArray[np.int32]) -> Tensor:
        logits = self._logits(inputs)
        wanted = torch.from_numpy(targets.astype(np.int64)).to(self.device, non_blocking=True)
        return F.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten(), ignore_index=IGNORE)

    def _logits(self, inputs: NDArray[np.float32]) -> Tensor:
        x = torch.from_numpy(inputs).to(self.device, self.dtype, non_blocking=True)
        return check_logits(self.model(x), x.shape[0], x.shape[1], self.n_classes)


def out_of_memory(error: BaseException) -> bool:
    """Whether torch asked for memory, of the device or the host, and got none."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose name begins so, under the rest of it."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
