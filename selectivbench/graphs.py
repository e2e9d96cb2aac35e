"""CUDA graphs of a training step: recorded once after a few eager steps, then replayed.

A graph repeats the kernels of one step on the same addresses: gradients, clipping and the optimiser's
update, without a word of Python. So the batch is copied into buffers that stay, tensors that a module
replaces later are kept, and whatever Python a module does between steps stays as it was when the step
was recorded. The recipe is torch's ("CUDA semantics", whole-network capture); what does the recording
is passed in.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

import torch
from torch import Tensor

WARM = 3
"""Eager steps before one is recorded: they compile, tune and allocate what a graph cannot."""
LONGEST_NOTE = 300


class Recorder(Protocol):
    """What runs a step aside, and what records one."""

    def aside(self, do: Callable[[], Tensor]) -> Tensor:
        """Do it now, apart from what the device does otherwise."""

    def record(self, do: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Record what ``do`` asks of the device, which happens at each replay and not before.

        The replay gives the same tensor each time.
        """

    def forget(self) -> None:
        """Free what a recording that failed has left."""


class CudaRecorder:
    """torch's own graphs."""

    def __init__(self) -> None:
        self._side = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def aside(self, do: Callable[[], Tensor]) -> Tensor:
        """On a side stream, as torch asks for the steps before a recording."""
        self._side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._side):
            result = do()
        torch.cuda.current_stream().wait_stream(self._side)
        return result

    def record(self, do: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Raises what ``do`` raises, or torch's error where something in it cannot be recorded."""
        graph = torch.cuda.CUDAGraph()
        # The outer context brings the stream back: torch leaves its own behind where recording fails.
        with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(graph):
            result = do()

        def replay() -> Tensor:
            graph.replay()
            return result

        return replay

    def forget(self) -> None:
        """Whoever raised may have left a cycle that holds the graph, and with it torch's own state."""
        gc.collect()
        give_memory_back()


def give_memory_back() -> None:
    """Let the device have what torch keeps for later; there is no harm where it cannot.

    After a recording that failed, some versions of torch take it for underway, and assert.
    """
    with suppress(RuntimeError):
        torch.cuda.empty_cache()


class GraphedStep:
    """A training step that is replayed as long as it can be; ``note`` says why it no longer is.

    whole: one update on tensors that stay where they are; gives the loss. device: where they are.
    held: the tensors of the model, by whatever name, which the graph reads where they lay.
    """

    def __init__(
        self,
        recorder: Recorder,
        whole: Callable[[Tensor, Tensor], Tensor],
        device: str,
        held: Callable[[], Sequence[Tensor]],
    ) -> None:
        self._recorder, self._whole, self._device, self._held = recorder, whole, device, held
        self.note = ""
        self.restart()

    @property
    def said(self) -> str:
        """What became of it, for the record."""
        return self.note or ("replayed" if self._replay else "not yet recorded")

    def restart(self) -> None:
        """Forget what was recorded; the next steps are eager again."""
        self._warm_left = WARM
        self._buffers: tuple[Tensor, Tensor] | None = None
        self._replay: Callable[[], Tensor] | None = None
        self._kept: Sequence[Tensor] = ()

    def give_up(self, why: str) -> None:
        """Every step is eager from now on."""
        self.note = self.note or f"eager: {why}"[:LONGEST_NOTE]
        self._buffers = self._replay = None
        self._kept = ()

    def step(self, inputs: Tensor, wanted: Tensor, eager: Callable[[], Tensor]) -> Tensor:
        """The loss of one update with a batch on the host; ``eager`` does the same without a graph."""
        if not self.note and self._warm_left:
            self._warm_left -= 1
            return self._recorder.aside(eager)
        if not self.note and self._replay is None:
            self._record(inputs, wanted)
        if self._buffers and [b.shape for b in self._buffers] != [inputs.shape, wanted.shape]:
            self.give_up("a batch had another shape")
        if self._replay is None or self._buffers is None:
            return eager()
        for buffer, new in zip(self._buffers, (inputs, wanted), strict=True):
            buffer.copy_(new, non_blocking=True)
        return self._replay().clone()

    def _record(self, inputs: Tensor, wanted: Tensor) -> None:
        x, y = (new.to(self._device, copy=True) for new in (inputs, wanted))
        try:
            self._replay = self._recorder.record(lambda: self._whole(x, y))
            self._buffers = x, y
            # An evaluation may make a longer table of positions: the graph still reads the old one.
            self._kept = self._held()
        except Exception as error:  # a submission's code, or torch: whatever cannot be recorded
            why = _cause(error)
        else:
            return
        # Out of the handler, whose traceback would hold the graph and the memory that it has taken.
        self.give_up(why)
        self._recorder.forget()


def _cause(error: BaseException) -> str:
    """What went wrong first: torch ends a broken recording by saying no more than that it is broken."""
    while error.__context__ is not None:
        error = error.__context__
    return f"{type(error).__name__}: {error}"
