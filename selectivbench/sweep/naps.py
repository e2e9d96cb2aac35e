"""Cells that only sleep, to try an engine with: their times and their failures are known."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from selectivbench.record import digest


@dataclass(frozen=True)
class Nap:
    """Sleeps, then gives a record.

    deaths: how often its process is killed in the middle before it comes through. witness: a file
    that gets a line each time it runs to its end, or nothing.
    """

    number: int
    seconds: float
    deaths: int = 0
    witness: str = ""

    @property
    def key(self) -> str:
        """By its number alone."""
        return digest({"nap": self.number})

    def run(self, scratch: Path) -> str:
        """Sleep through, or die half-way."""
        time.sleep(self.seconds / 2)
        self._die(scratch / "deaths")
        time.sleep(self.seconds / 2)
        if self.witness:
            with open(self.witness, "a", encoding="utf-8") as file:
                file.write(f"{self.number} {os.getpid()}\n")
        return json.dumps({"status": "pass", "key": self.key, "nap": asdict(self)}) + "\n"

    def _die(self, memory: Path) -> None:
        if self.deaths and (died := memory.stat().st_size if memory.exists() else 0) < self.deaths:
            memory.write_bytes(b"x" * (died + 1))
            os.kill(os.getpid(), signal.SIGKILL)
