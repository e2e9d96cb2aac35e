"""Tensors are found wherever they lie in a state, and not in what it only points to."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import nn

from selectivbench.tensors import tensors_in


class Cache:
    def __init__(self) -> None:
        self.layers = [{"state": (torch.zeros(2), torch.zeros(3))}]
        self.owner, self.me = nn.Linear(9, 9), self
        self.library = ModuleType("library")
        self.library.table = torch.zeros(9)  # type: ignore[attr-defined]


def sizes(whole: Any) -> list[int]:
    return sorted(tensor.numel() for tensor in tensors_in(whole))


def test_containers_and_plain_objects_are_looked_into_and_modules_are_not() -> None:
    assert sizes(Cache()) == [2, 3]
    assert sizes(None) == []


def test_a_tensor_that_is_held_twice_is_found_once() -> None:
    tensor = torch.zeros(4)
    assert sizes([tensor, {"again": tensor}]) == [4]


def test_a_long_chain_is_followed_to_its_end() -> None:
    chain: Any = torch.zeros(5)
    for _ in range(5_000):
        chain = [chain]
    assert sizes(chain) == [5]
