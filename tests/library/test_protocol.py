"""Frames: what goes in comes out, and what is no frame is refused before it costs anything."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from selectivbench.errors import ChildCrashed, ChildTimeout, ProtocolError
from selectivbench.sandbox.protocol import DTYPES, LARGEST_ARRAYS, LARGEST_HEADER, Channel


@pytest.fixture
def pair() -> Iterator[tuple[Channel, Channel]]:
    ours, theirs = (Channel(s) for s in socket.socketpair())
    yield ours, theirs
    ours.close()
    theirs.close()


Pair = tuple[Channel, Channel]

arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(
        dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)
    )
)


@given(st.text(max_size=9), st.dictionaries(st.text(), st.none() | st.text()), arrays, arrays)
@settings(deadline=None, max_examples=60)
def test_round_trip(kind: str, meta: dict[str, Any], a: Any, b: Any) -> None:
    ours, theirs = (Channel(s) for s in socket.socketpair())
    ours.send(kind, meta, a=a, b=b)
    frame = theirs.receive(time.monotonic() + 5)
    assert (frame.kind, frame.meta, list(frame.arrays)) == (kind, meta, ["a", "b"])
    for sent, got in zip((a, b), frame.arrays.values(), strict=True):
        assert (got.dtype, got.shape) == (sent.dtype, sent.shape)
        np.testing.assert_array_equal(got, sent)
    ours.close()
    theirs.close()


def test_a_strided_array_arrives_in_order(pair: Pair) -> None:
    array = np.arange(12, dtype=np.int32).reshape(3, 4).T[::2]
    pair[0].send("x", array=array)
    assert pair[1].receive().arrays["array"].tolist() == array.tolist()


def test_more_arrays_than_the_kernel_takes_at_once(pair: Pair) -> None:
    arrays = {f"a{i}": np.full(1, i, np.int32) for i in range(2_500)}
    pair[0].send("x", None, time.monotonic() + 5, **arrays)
    found = pair[1].receive(time.monotonic() + 5).arrays
    assert [int(array[0]) for array in found.values()] == list(range(2_500))


def test_a_frame_larger_than_the_sockets_buffer(pair: Pair) -> None:
    array = np.arange(1_000_000, dtype=np.int32)
    sender = threading.Thread(target=pair[0].send, args=("x",), kwargs={"array": array})
    sender.start()
    assert (pair[1].receive(time.monotonic() + 10).arrays["array"] == array).all()
    sender.join()


def test_frames_keep_their_order(pair: Pair) -> None:
    for name in "abc":
        pair[0].send(name)
    assert [pair[1].receive().kind for _ in range(3)] == ["a", "b", "c"]


def framed(header: object) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<I", len(raw)) + raw


def header(*arrays: object, kind: object = "x", meta: object = None) -> bytes:
    return framed({"kind": kind, "meta": {} if meta is None else meta, "arrays": list(arrays)})


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (struct.pack("<I", LARGEST_HEADER + 1), "frame header in bytes"),
        (b"\xff\xff\xff\xff", "frame header in bytes"),
        (framed(b""), "is not one"),
        (framed(b"{"), "is not one"),
        (framed(b"\xff\xfe"), "is not one"),
        (framed(b"[" * 200_000), "is not one"),
        (framed([]), "is not one"),
        (framed("text"), "is not one"),
        (framed({"kind": "x", "meta": {}}), "arrays"),
        (header(kind=3), "kind must be text"),
        (header(kind=None), "kind must be text"),
        (header(meta=[1]), "meta an object"),
        (framed({"kind": "x", "meta": {}, "arrays": 3}), "is not one"),
        (header(7), "is not one"),
        (header(["a", "int32"]), "is not one"),
        (header([3, "int32", [1]]), "frame array"),
        (header(["a", "object", [1]]), "a dtype of"),
        (header(["a", "float64", [1]]), "a dtype of"),
        (header(["a", ["int32"], [1]]), "a dtype of"),
        (header(["a", "int32", 3]), "frame array"),
        (header(["a", "int32", [-1]]), "at most 4 axes of whole numbers"),
        (header(["a", "int32", [1.5]]), "whole numbers"),
        (header(["a", "int32", [True]]), "whole numbers"),
        (header(["a", "int32", ["1"]]), "whole numbers"),
        (header(["a", "int32", [1] * 5]), "at most 4 axes"),
        (header(["a", "int32", [1 << 32]]), "whole numbers"),
        (header(["a", "int32", [LARGEST_ARRAYS // 4 + 1]]), "frame arrays in bytes"),
        (header(["a", "int16", [60_000] * 4]), "frame arrays in bytes"),
        (header(*[["a", "int16", [1 << 30]]] * 3), "frame arrays in bytes"),
    ],
)
def test_a_hostile_frame_is_refused(pair: Pair, raw: bytes, words: str) -> None:
    sender = threading.Thread(target=pair[0].sock.sendall, args=(raw,))
    sender.start()
    with pytest.raises(ProtocolError, match=words):
        pair[1].receive(time.monotonic() + 5)
    sender.join()


WHOLE = header(["a", "int32", [2]]) + bytes(8)


@pytest.mark.parametrize("size", [0, 3, 4, 20, len(WHOLE) - 8, len(WHOLE) - 1])
def test_a_truncated_stream_is_a_crash(pair: Pair, size: int) -> None:
    pair[0].sock.sendall(WHOLE[:size])
    pair[0].close()
    with pytest.raises(ChildCrashed, match="closed it"):
        pair[1].receive()


@pytest.mark.parametrize("size", [0, 3, 20, len(WHOLE) - 1])
def test_an_answer_that_stays_away_is_a_timeout(pair: Pair, size: int) -> None:
    pair[0].sock.sendall(WHOLE[:size])
    start = time.monotonic()
    with pytest.raises(ChildTimeout, match="before the deadline"):
        pair[1].receive(start + 0.05)
    assert 0.04 < time.monotonic() - start < 2


def test_a_deadline_that_has_passed_is_a_timeout_even_with_data_there(pair: Pair) -> None:
    pair[0].send("x")
    with pytest.raises(ChildTimeout):
        pair[1].receive(time.monotonic() - 1)


def test_a_drip_of_bytes_does_not_stretch_the_deadline(pair: Pair) -> None:
    stop = threading.Event()

    def drip() -> None:
        pair[0].sock.sendall(struct.pack("<I", 1000))
        while not stop.wait(0.02):
            pair[0].sock.sendall(b" ")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        with pytest.raises(ChildTimeout):
            pair[1].receive(time.monotonic() + 0.15)
    finally:
        stop.set()
        thread.join()


def test_a_peer_that_does_not_read_is_a_timeout(pair: Pair) -> None:
    ours, _ = pair
    much = np.zeros(1 << 23, np.uint8)  # far more than the socket holds
    start = time.monotonic()
    with pytest.raises(ChildTimeout):
        ours.send("load", None, time.monotonic() + 0.2, state=much)
    assert time.monotonic() - start < 5


def test_a_large_frame_arrives_whole_before_its_deadline(pair: Pair) -> None:
    ours, theirs = pair
    much = np.arange(1 << 21, dtype=np.int32)
    sender = threading.Thread(
        target=ours.send, args=("x", None, time.monotonic() + 60), kwargs={"a": much}
    )
    sender.start()
    assert (theirs.receive().arrays["a"] == much).all()
    sender.join()


def test_sending_to_nobody_is_a_crash(pair: Pair) -> None:
    pair[1].close()
    with pytest.raises(ChildCrashed, match="gone"):
        pair[0].send("x")


@pytest.mark.parametrize("deadline", [None, 5.0])
def test_closing_wakes_a_reader(pair: Pair, deadline: float | None) -> None:
    end = {} if deadline is None else {"deadline": time.monotonic() + deadline}
    timer = threading.Timer(0.05, pair[1].close)
    timer.start()
    with pytest.raises(ChildCrashed):
        pair[1].receive(**end)
    timer.join()


def test_a_closed_channel_is_a_crash_and_closing_twice_is_nothing(pair: Pair) -> None:
    pair[0].close()
    pair[0].close()
    with pytest.raises(ChildCrashed):
        pair[0].receive()
    with pytest.raises(ChildCrashed):
        pair[0].receive(time.monotonic() + 1)
    with pytest.raises(ChildCrashed):
        pair[0].send("x")
