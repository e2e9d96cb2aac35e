"""The first frame: everything that a child needs to know to build and train, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from selectivbench.batch import Encoding
from selectivbench.machine import PLAIN, Mode
from selectivbench.profiles import Budget, ModelSize


@dataclass(frozen=True)
class Order:
    """One training, without a word about tasks, seeds of data, or answers.

    origin: path of the submission's file; it names the copy that runs, and tracebacks show it.
    folder: the child's own working folder, or "" where it shares the controller's process.
    mode: autocast, CUDA graphs. sharers: children that use the same GPU at once.
    level, user: how far the child locks itself in, and the id that it changes to (None: its own).
    init_seed: of torch's generator, before the submission is run.
    """

    entry: str
    origin: str
    source: str
    kind: str
    size: ModelSize
    budget: Budget
    encoding: Encoding
    n_classes: int
    max_length: int
    init_seed: int
    device: str
    threads: int
    folder: str
    mode: Mode = PLAIN
    sharers: int = 1
    level: int = 1
    user: int | None = None

    def to_meta(self) -> dict[str, Any]:
        """As JSON-able data."""
        return asdict(self)

    @classmethod
    def from_meta(cls, meta: Mapping[str, Any]) -> Order:
        """Read back what ``to_meta`` gave."""
        data = dict(meta)
        data["size"] = ModelSize(**data["size"])
        data["budget"] = Budget(**data["budget"])
        data["encoding"] = Encoding(**data["encoding"])
        data["mode"] = Mode(**data["mode"])
        return cls(**data)
