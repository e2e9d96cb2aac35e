"""The child's side, in this process: serve, build, describe."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from selectivbench.batch import Encoding
from selectivbench.errors import SubmissionError
from selectivbench.profiles import Budget, ModelSize
from selectivbench.sandbox.child import describe, load, serve
from selectivbench.sandbox.orders import Order
from selectivbench.sandbox.protocol import Channel, Frame

MIXER = """
from torch import nn
class Mixer(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.linear = nn.Linear(spec.d_model, spec.d_model)
    def forward(self, x):
        return self.linear(x)
"""
MODEL = """
from torch import nn
class Model(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.linear = nn.Linear(spec.n_inputs, spec.n_classes)
    def forward(self, x):
        return self.linear(x)
"""

ORDER = Order(
    entry="mine",
    origin="/nowhere/mine.py",
    source=MIXER,
    kind="mixer",
    size=ModelSize(16, 1, 1, block_budget=12 * 16**2),
    budget=Budget(3, 2, 1e-2, 0, validations=1, deadline=30),
    encoding=Encoding("one_hot", 4, 4),
    n_classes=3,
    max_length=5,
    init_seed=1,
    device="cpu",
    threads=1,
    folder="",
)
TOKENS = np.array([[0, 1, 2, 3, 1], [3, 2, 1, 0, 0]], np.int16)
SEEDS = np.empty(0, np.uint64)
TARGETS = np.array([[0, 1, 2, -1, 1], [0, 2, 1, 0, -1]], np.int32)


@pytest.fixture
def line() -> Iterator[Channel]:
    """The controller's end of a channel; a thread serves at the other."""
    ours, theirs = (Channel(s) for s in socket.socketpair())
    thread = threading.Thread(target=serve, args=(theirs,))
    thread.start()
    yield ours
    ours.close()
    thread.join(10)
    theirs.close()
    assert not thread.is_alive()


def ask(line: Channel, kind: str, meta: Any = None, **arrays: Any) -> Frame:
    line.send(kind, meta, **arrays)
    return line.receive(time.monotonic() + 60)


def test_an_order_survives_its_way() -> None:
    assert Order.from_meta(ORDER.to_meta()) == ORDER


def test_a_conversation(line: Channel) -> None:
    built = ask(line, "order", ORDER.to_meta())
    assert built.kind == "built"
    assert built.meta["oversize"] is False
    assert built.meta["state_size"] is None
    assert built.meta["parameters"] > 12 * 16**2 * 0.98
    answer = ask(line, "predict", tokens=TOKENS, noise_seeds=SEEDS)
    assert (answer.kind, answer.arrays["logits"].shape) == ("logits", (2, 5, 3))
    assert ask(line, "report").meta["step"] == 0


def test_training_is_reported_and_changes_predictions(line: Channel) -> None:
    ask(line, "order", ORDER.to_meta())
    before = ask(line, "predict", tokens=TOKENS, noise_seeds=SEEDS).arrays["logits"]
    for _ in range(2):
        line.send("train", tokens=TOKENS, noise_seeds=SEEDS, targets=TARGETS)
    report = ask(line, "report")
    assert report.kind == "progress"
    assert report.meta["step"] == 2
    assert 0 < report.meta["loss"] < 5
    after = ask(line, "predict", tokens=TOKENS, noise_seeds=SEEDS).arrays["logits"]
    assert (before != after).any()


ONE_BY_ONE = """
import torch
from torch import nn
class Mixer(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.linear = nn.Linear(spec.d_model, spec.d_model)
    def forward(self, x):
        if len(x) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return self.linear(x)
def probe(module, x):
    return {"seen": x[..., 0]}
"""


def test_predictions_come_in_pieces_but_what_is_listened_to_does_not(line: Channel) -> None:
    """A probe would hear one piece for the whole batch."""
    ask(line, "order", replace(ORDER, source=ONE_BY_ONE).to_meta())
    answer = ask(line, "predict", tokens=TOKENS, noise_seeds=SEEDS)
    assert answer.arrays["logits"].shape == (2, 5, 3)
    heard = ask(line, "probe", tokens=TOKENS, noise_seeds=SEEDS)
    assert (heard.kind, heard.meta["status"]) == ("error", "oom")


def test_a_whole_model_has_no_backbone_around_it(line: Channel) -> None:
    order = replace(ORDER, kind="model", source=MODEL)
    assert ask(line, "order", order.to_meta()).meta["parameters"] == 4 * 3 + 3


@pytest.mark.parametrize(
    ("source", "status", "words"),
    [
        ("1 / 0", "error", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "error", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "error", "KeyboardInterrupt"),
        ("raise MemoryError", "oom", "MemoryError"),
        ("raise RuntimeError('can\\'t allocate memory: 8 TB')", "oom", "8 TB"),
        ("import no_such_package_here", "error", "No module named 'no_such_package_here'"),
        ("Mixer = 3", "error", "Mixer: got 'int', allowed: a callable Mixer(spec)"),
        ("Mixer = lambda spec: 3", "error", "Mixer(spec): got 'int', allowed: a torch.nn.Module"),
        ("def Mixer(): ...", "error", "takes 0 positional arguments but 1 was given"),
        (MIXER + "def state_size(spec): return 1.5", "error", "state_size(spec): got 1.5"),
        (MIXER + "def state_size(spec): return True", "error", "state_size(spec): got True"),
        (MIXER + "def state_size(spec): return -1", "error", "state_size(spec): got -1"),
    ],
)
def test_a_submission_that_cannot_be_built(
    line: Channel, source: str, status: str, words: str
) -> None:
    frame = ask(line, "order", replace(ORDER, source=source).to_meta())
    assert (frame.kind, frame.meta["status"]) == ("error", status)
    assert words in frame.meta["text"]


def test_a_state_size_is_passed_on(line: Channel) -> None:
    source = MIXER + "def state_size(spec): return 2 * spec.d_model + spec.max_length"
    assert ask(line, "order", replace(ORDER, source=source).to_meta()).meta["state_size"] == 37


@pytest.mark.parametrize("body", ["return x[:, :-1]", "return None", "return x.sum(-1)"])
def test_a_wrong_shape_says_got_and_wanted(line: Channel, body: str) -> None:
    source = MIXER.replace("return self.linear(x)", body)
    ask(line, "order", replace(ORDER, source=source).to_meta())
    frame = ask(line, "predict", tokens=TOKENS, noise_seeds=SEEDS)
    assert "Mixer's output: got " in frame.meta["text"]
    assert "allowed: (2, 5, 16), the shape of its input" in frame.meta["text"]


def test_a_frame_of_an_unknown_kind_is_an_error(line: Channel) -> None:
    ask(line, "order", ORDER.to_meta())
    assert ask(line, "dance").kind == "error"


def test_a_controller_that_hangs_up_is_no_exception_in_the_thread() -> None:
    """Under -W error an exception that leaves the thread would fail this test."""
    ours, theirs = (Channel(s) for s in socket.socketpair())
    source = "import time\ntime.sleep(0.2)\n1 / 0"
    thread = threading.Thread(target=serve, args=(theirs,))
    thread.start()
    ours.send("order", replace(ORDER, source=source).to_meta())
    ours.close()
    thread.join(10)
    theirs.close()
    assert not thread.is_alive()


def raised(source: str) -> BaseException:
    code = compile(source, "/somewhere/mine.py", "exec")
    try:
        exec(code, {})
    except Exception as error:
        return error
    raise AssertionError("it did not raise")


def test_a_traceback_holds_only_the_submissions_frames() -> None:
    source = "import json\ndef inner():\n    json.loads('{')\ninner()"
    text = describe(raised(source), "mine.py")["text"]
    assert text.count('File "/somewhere/mine.py"') == 2
    assert text.count("File ") == 2
    assert "json.decoder.JSONDecodeError: Expecting" in text


def test_a_long_message_keeps_its_end() -> None:
    text = describe(raised("raise ValueError('x' * 9_000 + 'end')"), "mine.py")["text"]
    assert len(text) == 4_000
    assert text.endswith("end")


def test_our_own_sentence_needs_no_traceback() -> None:
    assert describe(SubmissionError("too wide"), "mine.py") == {
        "status": "error",
        "text": "too wide",
    }


def test_the_copy_that_runs_stands_in_the_childs_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # as the child has done before it loads
    order = replace(ORDER, entry="copied", source="HERE = __file__", folder=str(tmp_path))
    module = load(order)
    assert module.HERE == "mine.py"
    assert (tmp_path / "mine.py").read_text() == "HERE = __file__"
    assert sys.modules.pop("submission_copied") is module
