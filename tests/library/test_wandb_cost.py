"""What W&B costs beside a case, in CPU seconds: ``pytest -m full tests/library/test_wandb_cost.py -s``.

A case pays for telling and for listening to its gates. The process that holds the runs pays for the
rest; it has a niceness, so that trainings beside it go first.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from selectivbench.mechanism.asking import Asked, job_of
from selectivbench.mechanism.glimpse import glimpse
from selectivbench.record import Record
from selectivbench.runner import run
from selectivbench.sandbox.launch import InProcess
from selectivbench.saved import Saved
from selectivbench.tracking import NullTracker
from selectivbench.tracking.gates import Gates
from selectivbench.tracking.mirror import Wandb

ROOT = Path(__file__).parents[2]
MORE = 4
"""Cases after the first."""


def of_this(do: Callable[[], Any]) -> float:
    """CPU seconds of this process, all threads."""
    began = time.process_time()
    do()
    return time.process_time() - began


def of_others() -> float:
    """CPU seconds of processes that this one has started, and that are over."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.full
@pytest.mark.parametrize("entry", ["lstm", "mamba", "transformer"])
def test_a_case_pays_less_than_a_hundredth(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb", reason="the extra `wandb` is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.chdir(tmp_path)
    (committed,) = (ROOT / "leaderboard/results").glob(f"{entry}-distractors-*-lite-seed1-*.json")
    record = Record.from_json(committed.read_text(encoding="utf-8"))  # of the shortest task
    job = job_of(Asked(ROOT / f"submissions/{entry}.py", "distractors", steps=1, device="cpu"))
    launcher, kept = InProcess("cpu", job.submission.imports), list[Saved]()
    run(job, launcher, NullTracker(), lambda fit: fit(), lambda _, saved: kept.append(saved))
    gates = glimpse(job, launcher, kept[0].state)
    listening = of_this(lambda: glimpse(job, launcher, kept[0].state))

    def mirrored(name: str, cases: int) -> tuple[float, float]:
        """CPU seconds of this process and of W&B's."""
        (folder := tmp_path / name).mkdir()
        before, wandb = of_others(), Wandb("cost", folder, patience=600)
        telling = of_this(lambda: [tell(wandb, folder, seed) for seed in range(cases)])
        wandb.close()
        return telling / cases, of_others() - before

    def tell(wandb: Wandb, folder: Path, seed: int) -> None:
        of_seed = replace(record, identity=replace(record.identity, seed=seed))
        gates.write(Gates.path(folder, of_seed.identity.stem))
        follower = wandb.follow(replace(job.start, identity=of_seed.identity))
        for point in record.curve:
            follower.point(point.step, record.curve[-1].step, point.loss, point.accuracy)
        follower.done(of_seed)
        follower.end()

    telling, first = mirrored("one", 1)
    _, all_of_them = mirrored("more", 1 + MORE)
    case = record.seconds["cpu"]
    further = (all_of_them - first) / MORE
    print(
        f"\n{entry}, a case of {case:.0f} s: listening {listening:.2f} s, telling {telling:.3f} s "
        f"({(listening + telling) / case:.2%}); W&B's process {first:.1f} s for the first case, "
        f"{further:.2f} s for each other ({further / case:.1%})"
    )
    assert telling + listening < 0.01 * case
    assert further < 0.05 * case
