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
from selectivbench.machine import Device, describe, gpu_count, resolve, versions


@pytest.fixture
def gpus(tmp_path: Path) -> Path:
    for bus in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / bus).mkdir()
        (tmp_path / bus / "information").write_text(
            f"Model: \t\t NVIDIA H200\nIRQ:   \t\t 5\nGPU UUID: \t GPU-{bus}\n"
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
    assert resolve(asked, gpus) == device


def test_resolve_without_gpus(tmp_path: Path, torch_is: Any) -> None:
    torch_is("2.13.0")
    assert resolve("auto", tmp_path / "none") == Device("cpu", "cpu")
    with pytest.raises(UsageError, match="no GPU driver, or torch is a CPU build"):
        resolve("cuda", tmp_path / "none")


def test_cuda_with_a_cpu_build_is_refused(gpus: Path, torch_is: Any) -> None:
    torch_is("2.13.0+cpu")
    with pytest.raises(UsageError, match="CPU build"):
        resolve("cuda", gpus)


@pytest.mark.parametrize("asked", ["gpu", "", "CPU", "cuda:0"])
def test_an_unknown_device_is_refused(asked: str) -> None:
    with pytest.raises(UsageError, match="allowed: auto, cpu or cuda"):
        resolve(asked)


def test_gpus_are_counted(gpus: Path) -> None:
    assert gpu_count(gpus) == 2
    assert gpu_count(gpus / "none") == 0


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
