"""The one training loop: every entry gets the same steps, batches, optimiser and schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from selectivbench.backbone import check_logits
from selectivbench.batch import IGNORE
from selectivbench.errors import SubmissionError, explain
from selectivbench.graphs import GraphedStep, Recorder, give_memory_back
from selectivbench.tensors import tensors_in

Result = TypeVar("Result")


@dataclass(frozen=True)
class TrainConfig:
    """steps, peak rate, warm-up steps, and the norm that gradients are clipped to.

    precision: ``bf16`` for autocast to bfloat16, forward and loss, over float32 weights; None for none.
    """

    steps: int
    lr: float
    warmup: int
    clip: float
    precision: str | None = None

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


def adam(parameters: list[nn.Parameter], lr: float | Tensor) -> torch.optim.Adam:
    """The optimiser of every entry; fused where torch can. A rate on a GPU can be part of a graph."""
    fused = not any(p.is_complex() for p in parameters)  # torch refuses the pair
    recorded = isinstance(lr, Tensor) and lr.is_cuda
    return torch.optim.Adam(parameters, lr=lr, fused=fused, capturable=recorded)


def autocast(device: str, precision: str | None) -> AbstractContextManager[object]:
    """Matrix products in bfloat16 where the precision says so; losses stay float32."""
    return nullcontext() if precision is None else torch.autocast(device, torch.bfloat16)


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
        recorder: Recorder | None = None,
    ) -> None:
        self.dtype = torch.float32 if dtype is None else getattr(torch, dtype)
        self.model, self.config = model.to(device), config
        if dtype is not None:  # a submission's own mixture of types is left alone otherwise
            self.model.to(self.dtype)
        self.n_classes, self.device = n_classes, device
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        rate = config.lr if recorder is None else torch.tensor(config.lr, device=device)
        self.optimiser = adam(self.parameters, rate)
        self.graph = (
            None if recorder is None else GraphedStep(recorder, self._update, device, self._tensors)
        )
        self.steps_done, self.pieces, self._exam_pieces = 0, 1, 1
        self._losses: list[Tensor] = []

    def step(self, inputs: NDArray[np.float32], targets: NDArray[np.int32]) -> None:
        """One update on inputs (B, T, n_inputs), targets (B, T) with IGNORE where there is no loss."""
        self.model.train()
        self._set_rate(self.config.rate(self.steps_done))

        def eager() -> Tensor:
            return self._updated(lambda: self._gradients(inputs, targets))

        if self.graph is None:
            loss = eager()
        else:
            loss = self.graph.step(torch.from_numpy(inputs), _classes(targets), eager)
        self.steps_done += 1
        self._losses.append(loss)

    def mean_loss(self) -> float:
        """Mean training loss (nats) since the last call; waits for the device."""
        mean = float(torch.stack(self._losses).mean()) if self._losses else math.nan
        self._losses.clear()
        return mean

    def predict(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits (B, T, n_classes) float32 of inputs (B, T, n_inputs), in evaluation mode.

        Where memory does not suffice the batch is done in pieces, now and from now on.
        """

        def answered(pieces: int) -> list[NDArray[np.float32]]:
            return [self.predict_at_once(part) for part in np.array_split(inputs, pieces)]

        rows = len(inputs)
        parts, pieces = self._within_memory(answered, min(self._exam_pieces, rows), rows)
        self._exam_pieces = max(self._exam_pieces, pieces)  # the last batch of a split is short
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def predict_at_once(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """The same in one pass of the model, whatever memory that takes: for who listens to it."""
        self.model.eval()
        # Not inference_mode: a tensor that a module caches under it would break training after it.
        with torch.no_grad(), self._autocast():
            return np.asarray(self._logits(torch.from_numpy(inputs)).float().cpu().numpy())

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
        if self.graph is not None:
            self.graph.restart()  # the moments lie elsewhere now
        self.steps_done, self.pieces = tensors["done"].tolist()
        torch.set_rng_state(tensors["generator.cpu"])
        if "generator.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["generator.cuda"])

    def _tensors(self) -> list[Tensor]:
        """Parameters, buffers, and what modules keep in plain attributes, lists and the like."""
        return [held for module in self.model.modules() for held in tensors_in(vars(module))]

    def _set_rate(self, rate: float) -> None:
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):  # a graph reads it from where it is
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def _updated(self, gradients: Callable[[], Tensor]) -> Tensor:
        self.optimiser.zero_grad(set_to_none=True)
        loss = gradients()
        nn.utils.clip_grad_norm_(self.parameters, self.config.clip)
        self.optimiser.step()
        return loss

    def _update(self, x: Tensor, wanted: Tensor) -> Tensor:
        """One update on tensors of the device, in one piece, without a look at the host."""

        def gradients() -> Tensor:
            loss = self._loss(x, wanted)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss.detach()

        return self._updated(gradients)

    def _gradients(self, inputs: NDArray[np.float32], targets: NDArray[np.int32]) -> Tensor:
        """The mean loss of a batch, with its gradients in place.

        Where memory does not suffice the batch is done in twice as many pieces, now and from now on.
        """

        def added(pieces: int) -> Tensor:
            self.optimiser.zero_grad(set_to_none=True)  # what failed may have left some
            return self._in_pieces(inputs, targets, pieces)

        loss, pieces = self._within_memory(added, self.pieces, len(inputs))
        if pieces > self.pieces and self.graph is not None:
            self.graph.give_up("a batch was split to fit the memory")
        self.pieces = pieces
        return loss

    def _within_memory(
        self, do: Callable[[int], Result], pieces: int, most: int
    ) -> tuple[Result, int]:
        """What ``do`` gives for so many pieces, and how many: twice as many while memory is short."""
        while True:
            try:
                return do(pieces), pieces
            except RuntimeError as error:  # torch.OutOfMemoryError is one
                if not out_of_memory(error) or pieces >= most:
                    raise
            # Out of the handler, whose traceback would hold what was computed so far.
            pieces = min(2 * pieces, most)
            if self.device != "cpu":
                give_memory_back()

    def _in_pieces(
        self, inputs: NDArray[np.float32], targets: NDArray[np.int32], pieces: int
    ) -> Tensor:
        """Each piece counts by its scored steps, so that the sum is the gradient of the whole."""
        scored = np.count_nonzero(targets != IGNORE)
        total = torch.zeros((), device=self.device)
        for rows in np.array_split(np.arange(len(inputs)), pieces):
            piece = slice(rows[0], rows[-1] + 1)
            if not (count := np.count_nonzero(targets[piece] != IGNORE)):
                continue  # the mean over no steps is no number
            x = torch.from_numpy(inputs[piece])
            loss = self._loss(x, _classes(targets[piece])) * (count / scored)
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        return total

    def _loss(self, x: Tensor, wanted: Tensor) -> Tensor:
        with self._autocast():
            logits = self._logits(x).flatten(0, 1).float()
            wanted = wanted.to(self.device, non_blocking=True).flatten()
            return F.cross_entropy(logits, wanted, ignore_index=IGNORE)

    def _autocast(self) -> AbstractContextManager[object]:
        return autocast(self.device, self.config.precision)

    def _logits(self, x: Tensor) -> Tensor:
        x = x.to(self.device, self.dtype, non_blocking=True)
        return check_logits(self.model(x), x.shape[0], x.shape[1], self.n_classes)


def _classes(targets: NDArray[np.int32]) -> Tensor:
    return torch.from_numpy(targets.astype(np.int64))


def out_of_memory(error: BaseException) -> bool:
    """Whether torch asked for memory, of the device or the host, and got none."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose name begins so, under the rest of it."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
