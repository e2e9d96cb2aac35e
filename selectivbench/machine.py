"""What runs here: device, versions, processor. Asks files and package metadata, imports no torch."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from selectivbench.errors import UsageError, explain

PACKAGES = ("selectivbench", "torch", "flash-linear-attention", "triton", "numba", "numpy")
GPUS = Path("/proc/driver/nvidia/gpus")
VISIBLE = "CUDA_VISIBLE_DEVICES"
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


@dataclass(frozen=True)
class Gpu:
    """As the driver has it: name of the model, without spaces, and the id that is this one's alone."""

    name: str
    uuid: str


def resolve(asked: str, gpus: Path = GPUS, environ: Mapping[str, str] | None = None) -> Device:
    """The device of ``auto``, ``cpu`` or ``cuda``; auto is a GPU where driver and torch have one.

    Where there are several it is the first that ``CUDA_VISIBLE_DEVICES`` of ``environ`` (default: of
    this process) leaves.
    """
    if asked not in ("auto", "cpu", "cuda"):
        raise UsageError(explain("device", asked, "auto, cpu or cuda"))
    found = () if asked == "cpu" or "+cpu" in versions()["torch"] else gpus_of(gpus)
    name = first_name(found, os.environ if environ is None else environ)
    if name is not None:
        return Device("cuda", name)
    if asked == "cuda":
        why = f"no GPU driver, a CPU build of torch, or {VISIBLE} hides all"
        raise UsageError(explain("device", asked, "cpu on this machine", why))
    return Device("cpu", "cpu")


def gpus_of(folder: Path = GPUS) -> tuple[Gpu, ...]:
    """The GPUs that the driver shows, in the order of the bus, by which children count them too."""
    texts = [path.read_text() for path in sorted(folder.glob("*/information"))]
    facts = [dict(re.findall(r"(.+?):\s*(.*)", text)) for text in texts]
    return tuple(
        # The name becomes part of links.
        Gpu(re.sub(r"[^A-Za-z0-9_.]+", "-", fact.get("Model", "GPU")), fact.get("GPU UUID", ""))
        for fact in facts
    )


def first_visible(environ: Mapping[str, str]) -> str | None:
    """What ``CUDA_VISIBLE_DEVICES`` names first; empty where it hides all, None where nobody chose."""
    return environ[VISIBLE].split(",")[0].strip() if VISIBLE in environ else None


def first_name(gpus: Sequence[Gpu], environ: Mapping[str, str]) -> str | None:
    """The name of the first GPU that a process may use; None where it may use none.

    A part of a GPU has an id of its own (``MIG-…``), which does not tell whose it is: the first's name.
    """
    first = first_visible(environ)
    if not gpus or first is None:
        return gpus[0].name if gpus else None
    if first.isdecimal():
        return gpus[int(first)].name if int(first) < len(gpus) else None
    if first.startswith("GPU-"):
        return next((gpu.name for gpu in gpus if gpu.uuid.startswith(first)), None)
    return gpus[0].name if first.startswith("MIG-") else None


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
