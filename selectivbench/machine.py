"""What runs here: device, versions, processor. Asks files and package metadata, imports no torch."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from selectivbench.errors import UsageError, explain

PACKAGES = ("selectivbench", "torch", "flash-linear-attention", "triton", "numba", "numpy")
GPUS = Path("/proc/driver/nvidia/gpus")
BF16, GRAPHS = "bf16", "graphs"
"""What a device class says after its device."""


@dataclass(frozen=True)
class Device:
    """kind: what torch calls it (cpu, cuda); name: of the model, without spaces.

    sharers: how many workers use it at once, each with its share of a GPU's memory.
    """

    kind: str
    name: str
    sharers: int = 1


@dataclass(frozen=True)
class Mode:
    """How a device computes, where that is not the profile's own way.

    precision: ``bf16`` for autocast to bfloat16 over float32 weights, None for the profile's types.
    graphs: whether training steps are recorded once and replayed as CUDA graphs.
    """

    precision: str | None = None
    graphs: bool = False

    def __post_init__(self) -> None:
        if self.precision not in (None, BF16):
            raise UsageError(explain("precision", self.precision, BF16))

    @property
    def facts(self) -> dict[str, str | bool]:
        """What is set, for a record's budget; nothing by default, so that older digests stand."""
        named = {"precision": self.precision, "cuda_graphs": self.graphs or None}
        return {name: value for name, value in named.items() if value is not None}

    def device_class(self, device: Device) -> str:
        """What results are compared within: the device and each thing that is set.

        >>> Mode(precision="bf16").device_class(Device("cpu", "cpu"))
        'cpu+bf16'
        """
        parts = (device.name, self.precision, GRAPHS if self.graphs else None)
        return "+".join(part for part in parts if part)


PLAIN = Mode()
"""The profile's own way."""


def used(device_class: str) -> tuple[Device, Mode]:
    """The device and mode of a device class; UsageError where a mode is none.

    >>> used("NVIDIA-H200+graphs")
    (Device(kind='cuda', name='NVIDIA-H200', sharers=1), Mode(precision=None, graphs=True))
    """
    name, *ways = device_class.split("+")
    device = Device("cpu" if name == "cpu" else "cuda", name)
    mode = Mode(next((way for way in ways if way != GRAPHS), None), GRAPHS in ways)
    if mode.device_class(device) != device_class:
        raise UsageError(explain("device class", device_class, mode.device_class(device)))
    return device, mode


def resolve(asked: str, gpus: Path = GPUS) -> Device:
    """The device of ``auto``, ``cpu`` or ``cuda``; auto is a GPU where driver and torch have one."""
    if asked not in ("auto", "cpu", "cuda"):
        raise UsageError(explain("device", asked, "auto, cpu or cuda"))
    names = _gpu_names(gpus) if asked != "cpu" else []
    if "+cpu" in versions()["torch"]:
        names = []
    if names:
        return Device("cuda", names[0])
    if asked == "cuda":
        raise UsageError(
            explain(
                "device", asked, "cpu on this machine", "no GPU driver, or torch is a CPU build"
            )
        )
    return Device("cpu", "cpu")


def gpu_count(gpus: Path = GPUS) -> int:
    """GPUs that the driver shows."""
    return len(_gpu_names(gpus))


def versions() -> Mapping[str, str]:
    """Version of each package that can change a result; absent ones say so."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "absent"
    return found


def describe() -> Mapping[str, str | int]:
    """Processor and size of this machine; never its name."""
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": _processor(Path("/proc/cpuinfo")),
        "cores": os.cpu_count() or 1,
    }


def _processor(cpuinfo: Path) -> str:
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _gpu_names(gpus: Path) -> list[str]:
    lines = [
        line
        for info in sorted(gpus.glob("*/information"))
        for line in info.read_text().splitlines()
    ]
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    return [re.sub(r"[^A-Za-z0-9_.]+", "-", model) for model in models]  # it becomes part of links
