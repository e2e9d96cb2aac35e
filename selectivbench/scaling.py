"""How a training step's cost grows with sizes: ``python -m selectivbench.scaling submissions/lstm.py``.

CPU seconds of the whole network's step (the standard backbone with the submission's layer), best of
four, one thread. A file of your own is run here as it is, without a sandbox.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import process_time

import numpy as np
import torch

from selectivbench.backbone import ModelSpec, build
from selectivbench.machine import Device
from selectivbench.profiles import ModelSize, get_profile
from selectivbench.runner import Job, order_of
from selectivbench.sandbox.child import factory_of
from selectivbench.sandbox.child import load as load_module
from selectivbench.sandbox.orders import Order
from selectivbench.sandbox.preload import preload
from selectivbench.submission import load
from selectivbench.tasks import get_task
from selectivbench.training import TrainConfig, Trainer

GRIDS = {
    "width": (48, 96, 192, 384),
    "layers": (2, 4, 8),
    "length": (64, 128, 256, 512),
    "classes": (8, 64, 512, 4096),
    "batch": (16, 64, 256),
}
INPUTS, COUNTED = 8, 4


@dataclass(frozen=True)
class Sizes:
    """Lite's own, from which one is changed at a time."""

    width: int = 48
    layers: int = 2
    length: int = 64
    classes: int = 8
    batch: int = 64


def seconds(order: Order, sizes: Sizes) -> float:
    """CPU seconds of one step."""
    torch.manual_seed(order.init_seed)
    d, heads = sizes.width, sizes.width // 16
    size = ModelSize(d, sizes.layers, heads, block_budget=12 * d * d)
    spec = ModelSpec(d, sizes.layers, 0, sizes.length, heads, INPUTS, sizes.classes)
    factory = factory_of(load_module(order), order.kind)
    config = TrainConfig(100, 1e-3, 1, 1.0)
    trainer = Trainer(build(order.kind, factory, spec, size), config, sizes.classes, "cpu")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((sizes.batch, sizes.length, INPUTS), dtype=np.float32)
    y = rng.integers(0, sizes.classes, (sizes.batch, sizes.length)).astype(np.int32)
    times = []
    for _ in range(1 + COUNTED):
        began = process_time()
        trainer.step(x, y)
        times.append(process_time() - began)
    return min(times[1:])  # the first may compile or allocate


def rows(path: Path) -> Iterator[str]:
    """One line of Markdown for each size that is changed."""
    submission, task = load(path), get_task("selective_copy")
    preload(submission.imports, "cpu")
    job = Job(submission, (task,), "base", get_profile("lite"), 1, Device("cpu", "cpu"))
    order = order_of(job, {task: job.dataset(task)})
    yield f"| {submission.id}: changed | CPU ms of a step |"
    yield "|---|---|"
    for name, values in GRIDS.items():
        shown = (
            f"{value}: {seconds(order, replace(Sizes(), **{name: value})) * 1000:.0f}"
            for value in values
        )
        yield f"| {name} (lite: {asdict(Sizes())[name]}) | {', '.join(shown)} |"


if __name__ == "__main__":
    for line in rows(Path(sys.argv[1])):
        print(line, flush=True)
