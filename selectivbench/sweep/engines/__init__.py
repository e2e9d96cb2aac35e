"""Where cells run: on this machine, or on a Ray cluster. Each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from selectivbench.errors import UsageError, explain, near
from selectivbench.sweep.drive import Engine

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Wish:
    """What a person asks of an engine.

    workers: cells at a time; None for what the machine or the cluster has. cpus, gpus: of one cell,
    for ``ray`` (a GPU may be shared: 0.25). address: of a Ray cluster; none for what RAY_ADDRESS
    says, or else one on this machine. shared: workers see the sweep's folder and write there;
    otherwise records travel to the driver.
    """

    engine: str = "local"
    workers: int | None = None
    cpus: float = 1.0
    gpus: float = 0.0
    address: str | None = None
    shared: bool = True


@contextmanager
def opened(wish: Wish, root: Path) -> Iterator[Engine]:
    """The engine of a wish, closed at the end; UsageError where it cannot be had."""
    engine = _start(wish, root)
    try:
        yield engine
    finally:
        engine.close()


def _start(wish: Wish, root: Path) -> Engine:
    if wish.engine not in ENGINES:
        raise UsageError(explain("engine", wish.engine, near(wish.engine, ENGINES)))
    if wish.workers is not None and wish.workers < 1:
        raise UsageError(explain("workers", wish.workers, "1 or more"))
    if wish.engine == "local":
        from selectivbench.sweep.engines.local import LocalEngine

        return LocalEngine(root, wish.workers)
    if find_spec("ray") is None:
        allowed, remedy = "local on this machine", "pip install 'selectivbench[ray]'"
        raise UsageError(explain("engine", "ray, which is not installed", allowed, remedy))
    from selectivbench.sweep.engines.ray import RayEngine

    return RayEngine(root, wish)
