"""A child that is being timed: it gets ready, then does its work so many times each time it is told.

The clock is the controller's: it stands outside the process that could stop it. What is said here of
memory and of the time that the device was busy is the child's word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import process_time
from typing import Any

import torch
from torch import nn

from selectivbench.sandbox import limits
from selectivbench.workload import CannotDecode, Load, Workload, workload

TINY = 64
"""Steps of the one sequence that everything is done with first: what it leaves in memory (tables,
threads, compiled code) is no cost of length."""


@dataclass
class Working:
    """A workload with the memory that was taken before it; ``cannot``: why there is none."""

    load: Load
    device: str
    held: int = 0
    todo: Workload | None = None
    cannot: str = ""

    @classmethod
    def begun(cls, model: nn.Module, meta: Mapping[str, Any], device: str) -> Working:
        """Warm up with one short sequence, then make the workload itself."""
        load = Load(**meta)
        tiny = replace(load, batch=1, length=min(TINY, load.length))
        try:
            first = workload(model, tiny, device)
            first.refill(0)
            first.run()
            held = _restarted(device)
            return cls(load, device, held, workload(model, load, device))
        except CannotDecode as reason:
            return cls(load, device, cannot=str(reason))

    def refill(self, repeats: int) -> None:
        """Everything that a round needs and its clock should not see."""
        assert self.todo is not None, "the controller was told that it cannot"
        self.todo.refill(repeats)
        if self.device == "cuda":
            torch.cuda.synchronize()

    def work(self, repeats: int) -> dict[str, Any]:
        """Do it, wait for the device, and say what it took there."""
        assert self.todo is not None, "the controller was told that it cannot"
        busy = (_on_gpu if self.device == "cuda" else _on_cpu)(self.todo, repeats)
        peak = _peak(self.device)
        return {
            "memory": max(0, peak - self.held) if peak else None,  # 0: it may not be looked at
            "busy": busy,
            "state_bytes": self.todo.state_bytes,
        }


def _on_cpu(todo: Workload, repeats: int) -> float:
    """CPU seconds, which a busy neighbour leaves alone."""
    began = process_time()
    for _ in range(repeats):
        todo.run()
    return process_time() - began


def _on_gpu(todo: Workload, repeats: int) -> float:
    """Seconds between two events, of which the last is waited for."""
    began, ended = (
        torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        for _ in range(2)
    )
    began.record()
    for _ in range(repeats):
        todo.run()
    ended.record()
    ended.synchronize()
    return float(began.elapsed_time(ended)) / 1000


def _restarted(device: str) -> int:
    """Let the peak begin anew where it can, and give what is held already."""
    if device != "cuda":
        return limits.peak("self")
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def _peak(device: str) -> int:
    """Bytes; 0 where it cannot be seen."""
    return torch.cuda.max_memory_allocated() if device == "cuda" else limits.peak("self")
