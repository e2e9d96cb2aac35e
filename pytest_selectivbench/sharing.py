"""How the workers of pytest-xdist share the GPUs of a machine."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any

from selectivbench.machine import VISIBLE, Device, Gpu, first_name


def placed(
    device: Device,
    workerinput: Mapping[str, Any] | None,
    gpus: Sequence[Gpu],
    environ: MutableMapping[str, str],
) -> Device:
    """The device as one worker has it: workers go round the GPUs, and share the memory of each.

    Where there are several, the worker's own is named in ``environ``, for its children, and the device
    has its name; a list that is there already is the choice that workers go round, and an empty one
    hides every GPU.
    """
    if workerinput is None or device.kind != "cuda" or environ.get(VISIBLE) == "":
        return device
    given = [name for name in environ.get(VISIBLE, "").split(",") if name]
    names = given or [str(number) for number in range(max(1, len(gpus)))]
    place = int("".join(filter(str.isdecimal, workerinput["workerid"])) or 0) % len(names)
    if len(names) > 1:
        environ[VISIBLE] = names[place]
    sharers = len(range(place, workerinput["workercount"], len(names))) or 1
    return replace(device, name=first_name(gpus, environ) or device.name, sharers=sharers)
