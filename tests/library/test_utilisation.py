"""How busy a GPU was, from a command that stands in for nvidia-smi."""

from __future__ import annotations

import io
import os
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from selectivbench.machine import Device
from selectivbench.utilisation import Samples, gauge, query, watched

ENDLESS = """
import os, sys, time
open(sys.argv[1], "w").write(str(os.getpid()))
for number in (20, 40, "[N/A]", 90):
    print(number, flush=True)
while True:
    time.sleep(0.05)
"""


def test_samples_of_an_endless_command_are_averaged_and_the_command_is_ended(
    tmp_path: Path,
) -> None:
    pid = tmp_path / "pid"
    with watched([sys.executable, "-c", ENDLESS, str(pid)]) as samples:
        deadline = time.monotonic() + 30
        while samples.share != 0.5 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert samples.share == 0.5
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_the_command_ends_where_what_is_watched_raises(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    def broken() -> None:
        with watched([sys.executable, "-c", ENDLESS, str(pid)]):
            while not (pid.is_file() and pid.read_text()):
                time.sleep(0.01)
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_without_the_program_nothing_is_known() -> None:
    with watched(["no-such-program-here"]) as samples:
        pass
    assert samples.share is None


def test_lines_that_are_no_number_do_not_count() -> None:
    samples = Samples()
    samples.read(io.StringIO("[N/A]\n\n"))
    assert samples.share is None
    samples.read(io.StringIO("7\n[Not Supported]\n 9\n250\n"))
    assert samples.share == pytest.approx((7 + 9 + 100) / 300, abs=1e-4)


@pytest.mark.parametrize(
    ("environ", "one"),
    [
        ({}, "0"),
        ({"CUDA_VISIBLE_DEVICES": "3,1"}, "3"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-a"}, "GPU-a"),
    ],
)
def test_it_looks_at_the_gpu_that_the_children_use(environ: dict[str, str], one: str) -> None:
    assert query(environ)[-1] == f"--id={one}"


def test_of_a_cpu_nothing_is_watched() -> None:
    assert isinstance(gauge(Device("cpu", "cpu")), nullcontext)
