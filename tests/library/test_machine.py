"""What runs here, without saying whose machine it is."""

from __future__ import annotations

import json
import platform
import socket
from pathlib import Path
from typing import Any

import pytest

from selectivbench import machine
from selectivbench.errors import UsageError
from selectivbench.machine import Device, Gpu, describe, gpus_of, resolve, versions


@pytest.fixture
def gpus(tmp_path: Path) -> Path:
    for bus, model in (("0000:02:00.0", "GeForce RTX 4090"), ("0000:01:00.0", "NVIDIA H200")):
        (tmp_path / bus).mkdir()
        (tmp_path / bus / "information").write_text(
            f"Model: \t\t {model}\nIRQ:   \t\t 5\nGPU UUID: \t GPU-{bus[5:7]}\n"
        )
    return tmp_path


@pytest.fixture
def torch_is(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda text: monkeypatch.setattr(machine, "versions", lambda: {"torch": text})


@pytest.mark.parametrize(
    ("asked", "build", "device"),
    [
        ("auto", "2.13.0", Device("cuda", "NVIDIA-H200")),
        ("cuda", "2.13.0+cu130", Device("cuda", "NVIDIA-H200")),
        ("cpu", "2.13.0", Device("cpu", "cpu")),
        ("auto", "2.13.0+cpu", Device("cpu", "cpu")),
    ],
)
def test_resolve_with_gpus(
    gpus: Path, torch_is: Any, asked: str, build: str, device: Device
) -> None:
    torch_is(build)
    assert resolve(asked, gpus, {}) == device


@pytest.mark.parametrize(
    ("visible", "name"),
    [
        ("0,1", "NVIDIA-H200"),
        ("1,0", "GeForce-RTX-4090"),
        ("GPU-02", "GeForce-RTX-4090"),
        ("MIG-4f", "NVIDIA-H200"),
        ("", None),
        ("-1", None),
        ("2", None),
        ("GPU-03", None),
    ],
)
def test_the_device_is_the_first_gpu_that_may_be_used(
    gpus: Path, torch_is: Any, visible: str, name: str | None
) -> None:
    torch_is("2.13.0")
    wanted = Device("cuda", name) if name else Device("cpu", "cpu")
    assert resolve("auto", gpus, {"CUDA_VISIBLE_DEVICES": visible}) == wanted


def test_resolve_without_gpus(tmp_path: Path, torch_is: Any) -> None:
    torch_is("2.13.0")
    assert resolve("auto", tmp_path / "none") == Device("cpu", "cpu")
    with pytest.raises(UsageError, match="no GPU driver, a CPU build of torch, or"):
        resolve("cuda", tmp_path / "none")


def test_cuda_with_a_cpu_build_is_refused(gpus: Path, torch_is: Any) -> None:
    torch_is("2.13.0+cpu")
    with pytest.raises(UsageError, match="CPU build"):
        resolve("cuda", gpus)


@pytest.mark.parametrize("asked", ["gpu", "", "CPU", "cuda:0"])
def test_an_unknown_device_is_refused(asked: str) -> None:
    with pytest.raises(UsageError, match="allowed: auto, cpu or cuda"):
        resolve(asked)


def test_gpus_are_counted_in_the_order_of_the_bus(gpus: Path) -> None:
    assert gpus_of(gpus) == (Gpu("NVIDIA-H200", "GPU-01"), Gpu("GeForce-RTX-4090", "GPU-02"))
    assert gpus_of(gpus / "none") == ()


def test_versions_name_what_can_change_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "PACKAGES", ("torch", "no-such-package"))
    found = versions()
    assert found["python"] == platform.python_version()
    assert found["torch"][0].isdigit()
    assert found["no-such-package"] == "absent"


def test_the_machine_is_described_without_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "whose-machine")
    said = json.dumps(dict(describe()))
    for name in {platform.node(), "whose-machine"} - {""}:
        assert name not in said
    assert set(describe()) == {"system", "architecture", "processor", "cores"}
    assert describe()["system"] == "Linux"
    assert int(describe()["cores"]) >= 1


def test_a_processor_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nmodel name\t: Some CPU: fast\nmodel name\t: other\n")
    assert machine._processor(file) == "Some CPU: fast"
    assert machine._processor(tmp_path / "none")
