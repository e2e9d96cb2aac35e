"""Timing of real layers in real children, at small lengths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from selectivbench import timing
from selectivbench.errors import ChildFailed, ProtocolError
from selectivbench.machine import Device, Mode
from selectivbench.profiles import TimingSize, get_profile
from selectivbench.sandbox.controller import Child
from selectivbench.sandbox.launch import ForkServer
from selectivbench.submission import load
from selectivbench.timing import CannotTime, Timing, TimingJob, time_layers

SLOW = """
import time
from torch import nn
class Mixer(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.lstm = nn.LSTM(spec.d_model, spec.d_model, batch_first=True)
    def forward(self, x):
        {forward}
        return self.lstm(x)[0]
def state_size(spec):
    return spec.max_length
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    launcher = ForkServer("cpu", frozenset())
    yield launcher
    launcher.close()


@pytest.fixture
def job(tmp_path: Path) -> Any:
    def make(what: str, forward: str = "pass", source: str = SLOW) -> TimingJob:
        path = tmp_path / "mine.py"
        path.write_text(source.format(forward=forward))
        size = TimingSize((16,), tokens=64, decoders=2, rounds=3, least=0.001)
        profile = replace(get_profile("smoke"), timing=size)
        return TimingJob(load(path), profile, Device("cpu", "cpu"), what, 16)

    return make


@pytest.mark.parametrize("what", timing.WHAT)
def test_three_layers_take_turns(server: ForkServer, job: Any, what: str) -> None:
    found = time_layers(job(what), server)
    assert set(found.layers) == {"own", "LSTM", "attention"}
    assert all(len(layer.seconds) == 3 for layer in found.layers.values())
    assert all(0 < s < 30 for layer in found.layers.values() for s in layer.seconds)
    assert found.batch == (2 if what == "decode" else 4)
    assert (found.length, found.declared_state) == (16, 16 + timing.MOST_DECODED)
    assert found.own.memory is not None
    assert found.own.memory < 1 << 28
    assert found.own.state_bytes == (2 * 32 * 4 if what == "decode" else None)
    keys = found.layers["attention"].state_bytes
    assert keys is None or keys >= 2 * 32 * 4 * 16  # keys and values of every step
    assert Timing.from_json(found.to_json()) == found


@pytest.mark.parametrize("what", timing.WHAT)
def test_all_layers_are_timed_in_the_mode_s_precision(
    server: ForkServer, job: Any, what: str
) -> None:
    asked = replace(job(what), mode=Mode("bf16"))
    found = time_layers(asked, server)
    assert set(found.layers) == {"own", "LSTM", "attention"}
    assert (found.device_class, found.key) == ("cpu+bf16", asked.key)
    assert asked.key != job(what).key
    held = found.layers["attention"].state_bytes
    assert held is None or held < 1.5 * 2 * 32 * 2 * 16  # keys and values of two bytes


def test_the_clock_is_the_controllers(server: ForkServer, job: Any) -> None:
    lying = "time.sleep(0.05); time.perf_counter = time.monotonic = lambda: 0.0"
    found = time_layers(job("forward", lying), server)
    assert min(found.own.seconds) >= 0.05
    assert max(found.own.busy) < 0.05
    assert found.tokens_per_second < 4 * 16 / 0.05


def test_more_work_is_seen_in_the_ratio(server: ForkServer, job: Any) -> None:
    found = time_layers(job("forward", "for _ in range(9): self.lstm(x)"), server)
    ratio = found.ratio("LSTM")
    assert ratio is not None
    assert 4 < ratio < 40


def test_what_cannot_be_done_says_why(server: ForkServer, job: Any) -> None:
    with pytest.raises(CannotTime, match=r"mine cannot decode: decoded outputs are .* from those"):
        time_layers(job("decode", "x = 2 * x"), server)
    with pytest.raises(ChildFailed, match="ZeroDivisionError"):
        time_layers(job("train", "1 / 0"), server)


def test_a_whole_model_is_timed_whole(server: ForkServer, job: Any) -> None:
    source = SLOW.replace("Mixer", "Model").replace("spec.d_model, spec.d_model", "8, 8")
    found = time_layers(job("decode", source=source), server)
    assert found.own.state_bytes == 2 * 8 * 4


def test_ratios_are_of_the_same_moment() -> None:
    """A machine that is slower by the round leaves the ratio alone."""
    layers = {
        "own": timing.Measured((3.0, 30.0, 300.0), (2.0, 20.0, 200.0), 1),
        "LSTM": timing.Measured((1.0, 10.0, 100.0), (1.0, 10.0, 100.0), 1),
    }
    made = Timing("e", "s", "lite", "cpu", "train", 8, 4, "k", layers, None, "process")
    assert made.ratio("LSTM") == 2.0
    assert made.ratio("attention") is None
    assert made.tokens_per_second == 8 * 4 / 30.0


def test_the_key_changes_with_what_could_change_the_time(job: Any) -> None:
    one = job("train")
    others = [job("forward"), replace(one, length=32), job("train", "x = x")]
    assert len({one.key, *(other.key for other in others)}) == 4
    assert job("train").key == one.key
    assert one.stem.startswith("mine-train-T16-smoke-")


@pytest.mark.parametrize(
    "said",
    [
        {"busy": 1.0, "memory": "much"},
        {"busy": 1.0, "memory": -1},
        {"busy": True},
        {"busy": 0.0},
        {},
    ],
)
def test_a_childs_word_must_be_a_number(said: dict[str, Any]) -> None:
    class Line:
        def send(self, *_: Any, **__: Any) -> None:
            pass

        def receive(self, *_: Any) -> Any:
            from selectivbench.sandbox.protocol import Frame

            return Frame("worked", said)

    class Process:
        channel, user = Line(), None

    with pytest.raises(ProtocolError, match="worked: got"):
        Child(Process(), 3).work(1)  # type: ignore[arg-type]
