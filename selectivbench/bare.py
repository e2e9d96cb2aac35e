"""A training loop as one writes it by hand, for ``overhead`` to compare the harness with.

Run as ``python -m selectivbench.bare SUBMISSION TASK PROFILE STEPS``: makes all batches ahead, says
``ready``, then for each line on its input trains and predicts once in a fork of its own, and answers
with the CPU seconds that took. It owes the submission nothing: no sandbox, no limits, no protocol.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selectivbench.backbone import build
from selectivbench.batch import IGNORE, Batch
from selectivbench.dialogue import LARGEST_BATCH, batch_order, evenly
from selectivbench.machine import Device
from selectivbench.profiles import get_profile
from selectivbench.runner import Job, order_of
from selectivbench.sandbox.child import factory_of, spec_of
from selectivbench.sandbox.child import load as load_module
from selectivbench.sandbox.orders import Order
from selectivbench.sandbox.preload import preload
from selectivbench.submission import load
from selectivbench.tasks import get_task
from selectivbench.tasks.base import Dataset
from selectivbench.training import TrainConfig


@dataclass(frozen=True)
class Prepared:
    """Everything that the loop needs, as tensors."""

    order: Order
    train: tuple[tuple[Tensor, Tensor], ...]
    validation: tuple[Tensor, ...]
    test: tuple[Tensor, ...]


def prepare(job: Job) -> Prepared:
    """All batches of a case, encoded."""
    task = job.tasks[0]
    data = job.dataset(task)
    order = order_of(job, {task: data})
    budget = job.plan.budget
    indices = batch_order(data.sizes["train"], budget.batch_size, budget.steps, job.seed)
    batches = (data.batch("train", i) for i in indices)
    train = tuple(
        (_encoded(data, batch), torch.from_numpy(batch.targets.astype(np.int64)))
        for batch in batches
    )
    tests = [x for split in data.evaluations for x in _inputs(data, split)]
    return Prepared(order, train, tuple(_inputs(data, "validation")), tuple(tests))


def loop(given: Prepared) -> float:
    """Train with as many validations as the budget has, predict the test set; the last loss."""
    order, budget = given.order, given.order.budget
    torch.manual_seed(order.init_seed)
    model = _model(order)
    optimiser = torch.optim.Adam(model.parameters(), lr=budget.lr, fused=_is_real(model))
    config = TrainConfig(budget.steps, budget.lr, budget.warmup, budget.clip)
    validated = evenly(budget.steps, budget.validations)
    loss = torch.zeros(())
    for step, (x, y) in enumerate(given.train):
        model.train()
        optimiser.param_groups[0]["lr"] = config.rate(step)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=IGNORE)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), budget.clip)
        optimiser.step()
        if step + 1 in validated:
            _predict(model, given.validation)
    _predict(model, given.test)
    return float(loss.detach())


def _predict(model: nn.Module, inputs: Sequence[Tensor]) -> None:
    model.eval()
    with torch.no_grad():
        for x in inputs:
            model(x).argmax(-1)


def _model(order: Order) -> nn.Module:
    factory = factory_of(load_module(order), order.kind)
    return build(order.kind, factory, spec_of(order), order.size)


def _is_real(model: nn.Module) -> bool:
    return not any(p.is_complex() for p in model.parameters())


def _encoded(data: Dataset, batch: Batch) -> Tensor:
    return torch.from_numpy(data.encoding.encode(batch.tokens, batch.noise_seeds))


def _inputs(data: Dataset, split: str) -> Iterator[Tensor]:
    for start in range(0, data.sizes[split], LARGEST_BATCH):
        rows = np.arange(start, min(start + LARGEST_BATCH, data.sizes[split]))
        yield _encoded(data, data.batch(split, rows))


def forked(given: Prepared) -> float:
    """CPU seconds of one loop in a process of its own."""
    pid = os.fork()
    if not pid:
        os._exit(0 if np.isfinite(loop(given)) else 1)
    _, status, usage = os.wait4(pid, 0)
    assert status == 0, "the loop's last loss is no number"
    return usage.ru_utime + usage.ru_stime


def main(argv: Sequence[str]) -> None:
    """Serve until the input ends."""
    path, name, profile, steps = argv[1:5]
    submission, task = load(Path(path)), get_task(name)
    variant = task.variants[profile][0]
    preload(submission.imports, "cpu")
    device = Device("cpu", "cpu")
    job = Job(submission, (task,), variant, get_profile(profile), 1, device, int(steps))
    given = prepare(job)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(forked(given), flush=True)


if __name__ == "__main__":
    main(sys.argv)
