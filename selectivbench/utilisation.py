"""How busy a GPU was while something ran, as ``nvidia-smi`` sees it from outside the process.

Nothing in the loop waits for it: a second process looks at the driver's counters now and then.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from statistics import fmean
from threading import Thread
from typing import IO, TypeAlias

from selectivbench.machine import Device, first_visible

EVERY = 500
"""Milliseconds between two looks; the driver's own window is up to a second."""


class Samples:
    """Percentages, as they come."""

    def __init__(self) -> None:
        self._seen: list[float] = []

    @property
    def share(self) -> float | None:
        """Their mean, 0 to 1; None where nothing was seen."""
        return round(fmean(self._seen) / 100, 4) if self._seen else None

    def read(self, lines: IO[str]) -> None:
        """Take a number from each line until the stream ends; what is none, ``[N/A]``, is left out."""
        for line in lines:
            if line.strip().isdecimal():
                self._seen.append(min(100.0, float(line)))


Gauge: TypeAlias = Callable[[Device], AbstractContextManager[Samples]]
"""What watches a device for as long as a context lasts."""


def gauge(device: Device) -> AbstractContextManager[Samples]:
    """The GPU of this process; nothing is seen of a CPU, whose seconds its processes tell."""
    if device.kind != "cuda":
        return nullcontext(Samples())
    return watched(query(os.environ))


def query(environ: Mapping[str, str]) -> list[str]:
    """The command that looks at the first GPU that this process may use."""
    first = first_visible(environ) or "0"
    asked = "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"
    return ["nvidia-smi", *asked, f"--loop-ms={EVERY}", f"--id={first}"]


@contextmanager
def watched(command: Sequence[str]) -> Iterator[Samples]:
    """Samples of a command that prints numbers until it is killed, which is at the context's end.

    Its output is a pipe of ours: should this process be killed, its next line ends it.
    """
    samples = Samples()
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True,
        )  # fmt: skip
    except OSError:  # no such program here: then it is not known
        yield samples
        return
    assert process.stdout is not None
    reader = Thread(target=samples.read, args=(process.stdout,), daemon=True)
    reader.start()
    try:
        yield samples
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()
