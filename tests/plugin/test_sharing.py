"""Workers of pytest-xdist on machines with one GPU and with several."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_selectivbench.sharing import placed
from selectivbench.machine import VISIBLE, Device, Gpu
from tests.plugin.conftest import records

GPU = Device("cuda", "NVIDIA-H200")
NAMED = """
import os
from dataclasses import replace
from pytest_selectivbench import active

placed, worker = active.placed, os.environ.get("PYTEST_XDIST_WORKER")
active.placed = lambda *given: replace(placed(*given), name=f"cpu-{worker}")
"""


def alike(count: int) -> list[Gpu]:
    return [Gpu(GPU.name, f"GPU-{number}") for number in range(count)]


def workers(count: int) -> list[dict[str, Any]]:
    return [{"workerid": f"gw{number}", "workercount": count} for number in range(count)]


@pytest.mark.parametrize(
    ("gpus", "given", "count", "wanted"),
    [
        (1, None, 4, [(None, 4)] * 4),
        (4, None, 4, [("0", 1), ("1", 1), ("2", 1), ("3", 1)]),
        (2, None, 5, [("0", 3), ("1", 2), ("0", 3), ("1", 2), ("0", 3)]),
        (4, None, 2, [("0", 1), ("1", 1)]),
        (8, "6,7", 3, [("6", 2), ("7", 1), ("6", 2)]),
        (8, "5", 2, [("5", 2), ("5", 2)]),
        (8, "", 2, [("", 1), ("", 1)]),
        (0, None, 2, [(None, 2), (None, 2)]),
    ],
)
def test_workers_go_round_and_share(
    gpus: int, given: str | None, count: int, wanted: list[tuple[str | None, int]]
) -> None:
    found = []
    for worker in workers(count):
        environ = {} if given is None else {VISIBLE: given}
        device = placed(GPU, worker, alike(gpus), environ)
        found.append((environ.get(VISIBLE), device.sharers))
        assert (device.kind, device.name) == (GPU.kind, GPU.name)
    assert found == wanted


def test_a_worker_s_device_has_the_name_of_its_own_gpu() -> None:
    mixed = [Gpu("NVIDIA-H200", "GPU-a"), Gpu("NVIDIA-A100", "GPU-b")]
    names = [placed(GPU, worker, mixed, {}).name for worker in workers(3)]
    assert names == ["NVIDIA-H200", "NVIDIA-A100", "NVIDIA-H200"]
    swapped = placed(GPU, workers(1)[0], mixed, {VISIBLE: "GPU-b,GPU-a"})
    assert swapped.name == "NVIDIA-A100"


def test_a_worker_that_replaces_a_lost_one_finds_its_place() -> None:
    environ: dict[str, str] = {}
    placed(GPU, {"workerid": "gw5", "workercount": 4}, alike(4), environ)
    assert environ == {VISIBLE: "1"}


@pytest.mark.parametrize(("device", "worker"), [(Device("cpu", "cpu"), workers(1)[0]), (GPU, None)])
def test_on_a_cpu_and_without_workers_nothing_is_shared(device: Device, worker: Any) -> None:
    environ: dict[str, str] = {}
    assert placed(device, worker, alike(4), environ) == device
    assert not environ


def test_records_are_found_where_workers_have_different_gpus(run, folder):
    (folder / "conftest.py").write_text(NAMED)
    result = run("-n", "2", "--selectiv-seeds=1,2", subprocess=True)
    result.assert_outcomes(passed=2)
    assert result.ret == 0
    result.stdout.no_fnmatch_line("no record*")
    assert {r["identity"]["device_class"] for r in records(folder)} == {"cpu-gw0", "cpu-gw1"}
