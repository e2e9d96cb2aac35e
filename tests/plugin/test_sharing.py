"""Workers of pytest-xdist on machines with one GPU and with several."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_selectivbench.sharing import VISIBLE, placed
from selectivbench.machine import Device

GPU = Device("cuda", "NVIDIA-H200")


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
        device = placed(GPU, worker, gpus, environ)
        found.append((environ.get(VISIBLE), device.sharers))
        assert (device.kind, device.name) == (GPU.kind, GPU.name)
    assert found == wanted


def test_a_worker_that_replaces_a_lost_one_finds_its_place() -> None:
    environ: dict[str, str] = {}
    placed(GPU, {"workerid": "gw5", "workercount": 4}, 4, environ)
    assert environ == {VISIBLE: "1"}


@pytest.mark.parametrize(("device", "worker"), [(Device("cpu", "cpu"), workers(1)[0]), (GPU, None)])
def test_on_a_cpu_and_without_workers_nothing_is_shared(device: Device, worker: Any) -> None:
    environ: dict[str, str] = {}
    assert placed(device, worker, 4, environ) == device
    assert not environ
