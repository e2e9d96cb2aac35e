"""Many records: processor time and memory of a build, which a busy machine does not change."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from leaderboard.rank import OVERALL, VARIANT
from selectivbench.record import Record
from tests.leaderboard import made

ROOT = Path(__file__).resolve().parents[2]
CASES = (
    *((task, VARIANT.get(("lite", task), "base")) for task in OVERALL),
    *(("memorization-v1", variant) for variant in ("amb8", "amb12", "amb20")),
    ("mqar-v1", "base"),
)


def entry(place: int) -> list[Record]:
    """Twenty-four records, each with a curve of forty points."""
    about = {"tags": ("ssm", "gated")}
    return [
        made.record(
            *(f"entry{place:04d}", task, seed, 0.3 + (place * 7 + seed) % 60 / 100),
            variant=variant, points=40, about=about, parameters=50_000 + place,
        )
        for task, variant in CASES
        for seed in (1, 2, 3)
    ]  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize(
    ("entries", "seconds", "megabytes"), [(42, 3, 300), (834, 40, 500)], ids=["1000", "20000"]
)
def test_a_large_build_stays_within_time_and_memory(
    tmp_path: Path, entries: int, seconds: float, megabytes: float
) -> None:
    for place in range(entries):
        made.write(tmp_path / "records", entry(place))
    command = ["-m", "leaderboard", "build", "--records", "records", "--out", "site"]
    running = subprocess.Popen(
        [sys.executable, *command],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    _, status, used = os.wait4(running.pid, 0)
    running.returncode = os.waitstatus_to_exitcode(status)
    assert running.returncode == 0
    assert used.ru_utime + used.ru_stime <= seconds
    assert used.ru_maxrss / 1024 <= megabytes
