"""The launchers of one session: one for each set of packages that is loaded ahead."""

from __future__ import annotations

from selectivbench.sandbox.launch import ForkServer, FreshInterpreters, InProcess, Launcher
from selectivbench.sandbox.levels import Isolation
from selectivbench.sandbox.preload import OPTIONAL


class Launchers:
    """Starts a launcher when it is first needed, and ends them all."""

    def __init__(self, device: str, isolation: Isolation) -> None:
        self.device, self.isolation = device, isolation
        self._started: dict[frozenset[str], Launcher] = {}

    def of(self, imports: frozenset[str]) -> Launcher:
        """The launcher for a submission that imports these packages."""
        packages = imports & OPTIONAL
        if packages not in self._started:
            self._started[packages] = self._start(packages)
        return self._started[packages]

    def close(self) -> None:
        """End every launcher and its children."""
        for launcher in self._started.values():
            launcher.close()
        self._started.clear()

    def _start(self, packages: frozenset[str]) -> Launcher:
        if not self.isolation.level:
            return InProcess(self.device, packages)
        kind = ForkServer if self.device == "cpu" else FreshInterpreters
        return kind(self.device, packages, self.isolation)
