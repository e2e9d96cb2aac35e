"""What runs here: device, versions, processor. Asks files and package metadata, imports no torch."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from selectivbench.errors import UsageError, explain

PACKAGES = ("selectivbench", "torch", "flash-linear-attention", "triton", "numba", "numpy")
GPUS = Path("/proc/driver/nvidia/gpus")


@dataclass(frozen=True)
class Device:
    """kind: what torch calls it (cpu, cuda); name: the class that results are compared within."""

    kind: str
    name: str


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
    return [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
