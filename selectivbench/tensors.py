"""Which tensors something holds, wherever in it they lie."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

from torch import Tensor, nn

ELSEWHERE = (nn.Module, type, ModuleType)
"""What is not looked into: it is no part of what points to it."""


def tensors_in(whole: Any) -> Iterator[Tensor]:
    """Every tensor that a state holds, in containers and in plain objects, but not in modules."""
    seen: set[int] = set()
    left = [whole]
    while left:
        part = left.pop()
        if id(part) in seen or isinstance(part, ELSEWHERE):
            continue
        seen.add(id(part))
        if isinstance(part, Tensor):
            yield part
        elif isinstance(part, dict):
            left += part.values()
        elif isinstance(part, list | tuple | set):
            left += part
        else:
            left += getattr(part, "__dict__", {}).values()
