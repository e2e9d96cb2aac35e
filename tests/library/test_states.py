"""A trained state's bytes are counted and refused without torch, and carry a model over."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save

from selectivbench.errors import ProtocolError
from selectivbench.profiles import get_profile
from selectivbench.sandbox.controller import Child, opened
from selectivbench.sandbox.launch import InProcess
from selectivbench.sandbox.protocol import Frame
from selectivbench.sandbox.states import WIDTHS, State, largest, usual
from tests.library.test_launch import BATCH, order, predict


def raw(header: object, body: bytes = b"", length: int | None = None) -> Any:
    text = json.dumps(header).encode()
    size = len(text) if length is None else length
    return np.frombuffer(struct.pack("<Q", size) + text + body, dtype=np.uint8)


def entry(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> Any:
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


def test_every_number_counts_whatever_its_type() -> None:
    types = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.float64)
    tensors = {str(dtype): torch.zeros((3, 5), dtype=dtype) for dtype in types}
    got = State.read(np.frombuffer(save(tensors | {"empty": torch.zeros(0)}), dtype=np.uint8))
    assert got.numbers == 15 * len(types)


def test_a_large_model_may_have_many_names() -> None:
    names = {f"{'layer' * 20}{i}": entry()["a"] for i in range(2_000)}
    text = {
        name: e | {"data_offsets": [8 * i, 8 * i + 8]} for i, (name, e) in enumerate(names.items())
    }
    with pytest.raises(ProtocolError, match="header in bytes"):
        State.read(raw(text, bytes(16_000)))
    many = {
        n: e | {"shape": [1_000], "data_offsets": [4_000 * i, 4_000 * (i + 1)]}
        for i, (n, e) in enumerate(names.items())
    }
    assert State.read(raw(many, bytes(8_000_000))).numbers == 2_000_000


def test_a_state_made_by_hand() -> None:
    assert State.read(raw(entry(), bytes(8))).numbers == 2
    assert State.read(raw({"__metadata__": {"x": "y"}})).numbers == 0


@pytest.mark.parametrize(
    "bytes_",
    [
        raw({})[:5],
        raw({}, b"x"),
        raw([]),
        raw({}, length=1 << 62),
        raw({"a": 3}),
        raw({"a": {}}),
        raw(entry("F33"), bytes(8)),
        raw(entry(["F32"]), bytes(8)),
        raw(entry(shape=[3]), bytes(8)),
        raw(entry(shape=[-2]), bytes(8)),
        raw(entry(shape=[True, 2]), bytes(8)),
        raw(entry(shape=2), bytes(8)),
        raw(entry(offsets=[8, 0]), bytes(8)),
        raw(entry(offsets=[-8, 0]), bytes(8)),
        raw(entry(offsets=[0]), bytes(8)),
        raw(entry(), bytes(9)),
        raw({"n" * 270_000: entry()["a"]}, bytes(8)),
        raw(entry(shape=[(1 << 32) - 1] * 9), bytes(8)),
        raw(entry(), bytes(7)),
    ],
)
def test_what_is_no_state_is_refused(bytes_: Any) -> None:
    with pytest.raises(ProtocolError, match="the saved state is none"):
        State.read(bytes_)


def test_no_number_of_parameters_allows_any_state() -> None:
    assert largest(1 << 50) == 1 << 29


def test_widths_are_those_of_the_format() -> None:
    assert WIDTHS["BF16"] == 2
    assert largest(0) == 16 << 20
    assert largest(1_000_000) > 8 * 1_000_000


@pytest.mark.parametrize("name", ["lite", "paper"])
def test_a_state_may_be_as_large_as_the_stack_that_was_ordered(name: str) -> None:
    """With Adam's moments, 12 bytes for each of the 16 d² parameters of a published block."""
    size = get_profile(name).default_plan.model
    assert largest(1 << 50, usual(size)) == 1 << 29
    widest = replace(size, d_model=1_296, n_layers=8)
    parameters = 16 * 1_296**2 * 8
    assert largest(parameters, usual(widest)) > 12 * parameters
    assert largest(1 << 50, usual(widest)) == 1 << 32


@pytest.mark.parametrize("array", [None, np.zeros(4, np.float32), np.zeros((2, 2), np.uint8)])
def test_an_answer_that_is_no_row_of_bytes(array: Any) -> None:
    class Answering:
        def __init__(self) -> None:
            self.channel, self.user = self, None

        def send(self, kind: str, *_: Any) -> None:
            assert kind == "save"

        def receive(self, deadline: float, most: int) -> Frame:
            assert deadline > 0
            assert most == largest(0)
            return Frame("state", {}, {} if array is None else {"state": array})

    with pytest.raises(ProtocolError, match="one row of bytes"):
        Child(Answering(), 3).state()  # type: ignore[arg-type]


def test_a_look_at_a_state_that_is_none_is_no_failure() -> None:
    launcher = InProcess("cpu", frozenset())
    with opened(launcher, order()) as child:
        child.enter("fit", 20)
        seen = child.peek()
        assert seen is not None
        assert (seen.raw == child.state().raw).all()
        child.built = replace(child.built, parameters=-((16 << 20) // 16))  # nothing fits
        assert child.peek() is None
        assert predict(child).size  # and the child goes on


def test_a_second_child_predicts_as_the_first_that_was_trained() -> None:
    launcher = InProcess("cpu", frozenset())
    with opened(launcher, order()) as first:
        first.enter("fit", 20)
        for _ in range(3):
            first.train(BATCH)
        trained, state = predict(first), first.state()
        assert state.numbers == first.built.parameters
    with opened(launcher, replace(order(), init_seed=9)) as second:
        untrained = predict(second)
        second.load(state)
        assert (predict(second) == trained).all()
    assert (untrained != trained).any()
