"""Whatever bytes come: a frame, a record, a state or a source is read, or refused in our own words."""

from __future__ import annotations

import json
import socket
import struct
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from selectivbench import submission
from selectivbench.errors import ChildError, ProtocolError, RecordError, SubmissionError
from selectivbench.record import Entry, Evaluation, Identity, Point, Record
from selectivbench.sandbox.protocol import Channel
from selectivbench.sandbox.states import State

NORMAL, FULL = 5_000, 100_000
"""Inputs of all tests here together, as often as each reader's share says."""
MOST = 1 << 20


def shared(share: float) -> Any:
    few, many = int(NORMAL * share), pytest.param(int(FULL * share), marks=pytest.mark.full)
    return pytest.mark.parametrize("examples", [few, many], ids=["normal", "full"])


RECORD = Record(
    Identity("lstm", "ab", "t-v1", "base", "lite", 1, "cpu", "b", "e"),
    Entry("lstm", "LSTM", "mixer", tags=("gated",)),
    "pass",
    evaluations=(Evaluation("test", 0.9, 0.1, 1.0),),
    curve=(Point(1, 2.0, None),),
)
WHOLE = json.loads(RECORD.to_json())

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)
)
layouts = st.lists(
    st.tuples(
        st.text(max_size=3) | st.integers(),
        st.sampled_from(["int16", "float32", "uint8", "object", "float64", ""]),
        st.lists(st.integers(-1, 1 << 33), max_size=5) | scalars,
    ),
    max_size=3,
)
headers = st.fixed_dictionaries({"kind": scalars, "meta": values, "arrays": layouts | values})
frames = st.one_of(
    st.binary(max_size=64),
    headers.map(lambda header: framed(json.dumps(header).encode())),
    st.binary(max_size=32).map(lambda raw: framed(raw)),
    st.tuples(headers, st.binary(max_size=64)).map(
        lambda pair: framed(json.dumps(pair[0]).encode()) + pair[1]
    ),
)
changes = st.tuples(
    st.sampled_from([(key,) for key in WHOLE] + [("identity", k) for k in WHOLE["identity"]]),
    values,
)
texts = st.one_of(
    st.text(max_size=80),
    changes.map(lambda change: changed(*change)),
    st.tuples(st.integers(0, 900), st.text(max_size=3)).map(
        lambda cut: RECORD.to_json()[: cut[0]] + cut[1] + RECORD.to_json()[cut[0] + 1 :]
    ),
)
LINES = r"""
class Mixer: pass
Mixer = 1
def Model(s): ...
NAME = 'x'
NAME = open('x')
TRAIN = {'lr': 0.1}
TRAIN = {'lr': 9**9}
TAGS = ['a', 3]
TAGS = [[]] * 9
import torch
from . import x
EXPECTED_FAIL: list = ()
x = (
if 1:
NAMES = 1
global x
f'{'
lambda: (yield)
async def Mixer(): ...
\
PAPER = '\ud800'
AUTHORS = 10 ** 10000
TRAIN = {**1}
TAGS = -(-(-1))
"""
lines = st.sampled_from([*LINES.strip().splitlines(), "\t0", "\f"])
sources = st.one_of(
    st.binary(max_size=60),
    st.lists(lines | st.text(max_size=12), max_size=8).map(lambda parts: "\n".join(parts).encode(
        errors="surrogatepass")),
)  # fmt: skip


def framed(raw: bytes) -> bytes:
    return struct.pack("<I", len(raw)) + raw


def changed(path: tuple[str, ...], value: Any) -> str:
    data = json.loads(RECORD.to_json())
    *outer, last = path
    (data[outer[0]] if outer else data)[last] = value
    return json.dumps(data)


def thoroughly(examples: int) -> Any:
    quiet = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    return settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=quiet,
        derandomize=True,
    )  # fmt: skip


@shared(0.25)
def test_the_frame_reader(examples: int) -> None:
    @thoroughly(examples)
    @given(frames)
    def reads(raw: bytes) -> None:
        ours, theirs = (Channel(sock) for sock in socket.socketpair())
        theirs.sock.sendall(raw)
        theirs.close()
        try:
            frame = ours.receive(time.monotonic() + 5, MOST)
            assert isinstance(frame.kind, str)
            assert sum(array.nbytes for array in frame.arrays.values()) <= MOST
        except ChildError:
            pass
        finally:
            ours.close()

    reads()


@shared(0.2)
def test_the_record_loader(examples: int) -> None:
    @thoroughly(examples)
    @given(texts)
    def reads(text: str) -> None:
        try:
            record = Record.from_json(text)
        except RecordError:
            return
        assert Record.from_json(record.to_json()) == record
        assert asdict(record).keys() == WHOLE.keys()

    reads()


@shared(0.35)
def test_the_submission_scanner(examples: int, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"

    @thoroughly(examples)
    @given(sources)
    def reads(raw: bytes) -> None:
        path.write_bytes(raw)
        try:
            found = submission.load(path)
        except SubmissionError:
            return
        assert found.kind in ("mixer", "model")
        assert all(1e-5 <= rate <= 0.1 for rate in found.train.values())
        found.sha256.encode()

    reads()


@shared(0.2)
def test_the_state_reader(examples: int) -> None:
    @thoroughly(examples)
    @given(st.binary(max_size=40) | values.map(lambda v: struct.pack("<Q", len(json.dumps(v))) +
                                                json.dumps(v).encode()))  # fmt: skip
    def reads(raw: bytes) -> None:
        with suppress(ProtocolError):
            assert State.read(np.frombuffer(raw, dtype=np.uint8)).numbers >= 0

    reads()
