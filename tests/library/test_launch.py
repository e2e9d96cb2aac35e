"""Real processes: how submissions train, fail, misbehave, and are gone afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from selectivbench.batch import IGNORE, Batch, Encoding
from selectivbench.errors import (
    ChildCrashed,
    ChildError,
    ChildFailed,
    ChildOutOfMemory,
    ChildTimeout,
    ProtocolError,
)
from selectivbench.profiles import Budget, ModelSize
from selectivbench.sandbox import controller
from selectivbench.sandbox.controller import Child, opened
from selectivbench.sandbox.launch import (
    Exit,
    ForkServer,
    FreshInterpreters,
    InProcess,
    Launcher,
    environment,
)
from selectivbench.sandbox.orders import Order
from selectivbench.sandbox.protocol import Frame

MIXER = """
import os, signal, subprocess, sys, time
import torch
from torch import nn
{top}
class Mixer(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.linear = nn.Linear(spec.d_model, spec.d_model)
    def forward(self, x):
        {forward}
        return self.linear(x)
"""
BATCH = Batch(
    np.array([[0, 1, 2], [3, 2, 1]], np.int16),
    np.array([[0, 1, 2], [0, IGNORE, 1]], np.int32),
    np.zeros((2, 3), np.int32),
    np.empty(0, np.uint64),
)


def order(top: str = "", forward: str = "") -> Order:
    return Order(
        entry="mine",
        origin="/nowhere/mine.py",
        source=MIXER.format(top=top, forward=forward),
        kind="mixer",
        size=ModelSize(16, 1, 1, block_budget=12 * 16**2),
        budget=Budget(3, 2, 1e-2, 0, validations=1, deadline=30),
        encoding=Encoding("one_hot", 4, 4),
        n_classes=3,
        max_length=3,
        init_seed=1,
        device="cpu",
        threads=1,
        folder="",
    )


def predict(child: Child, seconds: float = 20) -> Any:
    child.enter("predict", seconds)
    child.ask(BATCH)
    return child.logits(BATCH)


def ends(launcher: Launcher, wanted: Order, seconds: float = 20) -> tuple[ChildError, Exit | None]:
    """The error that a submission ends in, built and asked once, and how its process ended."""
    children = []
    try:
        with opened(launcher, wanted) as child:
            children.append(child)
            predict(child, seconds)
    except ChildError as error:
        return error, children[0].exit if children else None
    raise AssertionError("it did not fail")


def gone(pid: int) -> bool:
    """Whether a process has ended, within a second."""
    for _ in range(50):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":  # dead; whoever adopted it has not looked yet
            return True
        time.sleep(0.02)
    return False


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    launcher = ForkServer("cpu", frozenset())
    yield launcher
    launcher.close()


def test_a_forked_child_trains_and_predicts(server: ForkServer) -> None:
    with opened(server, order()) as child:
        assert child.built.parameters > 0
        assert child.built.state_size is None
        before = predict(child)
        child.enter("fit", 20)
        for _ in range(3):
            child.train(BATCH)
        child.report()
        steps, loss = child.progress()
        after = predict(child)
    assert (steps, before.shape) == (3, (2, 3, 3))
    assert 0 < loss < 5
    assert (before != after).any()
    assert child.exit is not None
    assert child.exit.peak_memory is not None
    assert 10 << 20 < child.exit.peak_memory < 10 << 30
    assert child.exit.cpu is not None


def test_one_order_gives_the_same_numbers_twice(server: ForkServer) -> None:
    answers = []
    for seed in (1, 1, 2):
        with opened(server, replace(order(), init_seed=seed)) as child:
            child.enter("fit", 20)
            child.train(BATCH)
            answers.append(predict(child))
    assert (answers[0] == answers[1]).all()
    assert (answers[0] != answers[2]).any()


def test_a_second_fork_costs_well_under_a_second(server: ForkServer) -> None:
    with opened(server, order()):
        pass
    start = time.monotonic()
    with opened(server, order()) as child:
        child.enter("fit", 20)
        child.train(BATCH)
        child.report()
        child.progress()
    assert time.monotonic() - start < 1.0


@pytest.mark.parametrize(
    ("top", "forward", "error", "words"),
    [
        ("raise ValueError('at import')", "", ChildFailed, "ValueError: at import"),
        ("", "raise ValueError('in forward')", ChildFailed, "ValueError: in forward"),
        ("", "sys.exit(0)", ChildFailed, "SystemExit: 0"),
        ("os._exit(0)", "", ChildCrashed, "in phase 'build': it left with exit code 0"),
        ("", "os._exit(0)", ChildCrashed, "in phase 'predict': it left with exit code 0"),
        ("", "os._exit(7)", ChildCrashed, "exit code 7"),
        ("", "os.kill(os.getpid(), signal.SIGSEGV)", ChildCrashed, "ended by SIGSEGV"),
        ("", "os.kill(os.getpid(), signal.SIGKILL)", ChildCrashed, "ended by SIGKILL"),
        ("", "os.kill(os.getpid(), 40)", ChildCrashed, "ended by signal 40"),
        ("", "raise MemoryError", ChildOutOfMemory, "MemoryError"),
        ("", "torch.empty(1 << 58)", ChildOutOfMemory, "allocate memory"),
        ("", "x = x[:, 1:]", ChildFailed, r"Mixer's output: got (2, 2, 16), allowed: (2, 3, 16)"),
    ],
)
def test_a_submission_that_fails(
    server: ForkServer, top: str, forward: str, error: type[ChildError], words: str
) -> None:
    caught, _ = ends(server, order(top, forward))
    assert type(caught) is error
    assert words in str(caught)


def test_numbers_that_are_none_arrive_as_they_are(server: ForkServer) -> None:
    with opened(server, order(forward="self.linear.bias.data += float('nan')")) as child:
        assert np.isnan(predict(child)).all()  # to refuse them is the runner's part


def test_a_traceback_shows_the_submission_and_not_the_harness(server: ForkServer) -> None:
    caught, _ = ends(server, order(forward="1 / 0"))
    assert 'File "mine.py", line 11, in forward' in str(caught)
    assert str(caught).count("File ") == 1


def test_a_wrong_signature_is_the_submissions_failure(server: ForkServer) -> None:
    wrong = order().source.replace("(self, spec)", "(self)")
    caught, _ = ends(server, replace(order(), source=wrong))
    assert type(caught) is ChildFailed
    assert "takes 1 positional argument but 2 were given" in str(caught)


def test_a_loop_in_forward_is_a_timeout(server: ForkServer) -> None:
    start = time.monotonic()
    caught, ended = ends(server, order(forward="\n        while True: pass"), seconds=0.3)
    assert type(caught) is ChildTimeout
    assert "no answer in phase 'predict' before its deadline" in str(caught)
    assert time.monotonic() - start < 5
    assert ended is not None
    assert ended.code == -signal.SIGKILL


def test_a_loop_at_import_is_a_timeout(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "BUILD_DEADLINE", 0.3)
    caught, _ = ends(server, order(top="print('so far')\nsys.stdout.flush()\nwhile True: pass"))
    assert type(caught) is ChildTimeout
    assert "'build' before its deadline. It last printed: so far" in str(caught)


def test_a_sender_is_woken_when_the_child_does_not_read(server: ForkServer) -> None:
    def send() -> None:
        for _ in range(100_000):  # far more than the socket holds
            child.train(BATCH)

    start = time.monotonic()
    with opened(server, order(forward="time.sleep(99)")) as child:
        child.enter("fit", 0.5)
        child.report()
        child.progress()
        with pytest.raises(ChildTimeout):
            child.together(send, child.progress)
        child.finish = lambda: None  # type: ignore[method-assign] - the channel is closed
    assert time.monotonic() - start < 5


def test_a_data_error_in_the_sender_surfaces_as_itself(server: ForkServer) -> None:
    def send() -> None:
        raise ZeroDivisionError("the data")

    with opened(server, order()) as child:
        child.enter("fit", 20)
        with pytest.raises(ZeroDivisionError, match="the data"):
            child.together(send, child.progress)
        child.finish = lambda: None  # type: ignore[method-assign] - the channel is closed


def test_the_childs_own_error_wins_over_the_broken_pipe_it_causes(server: ForkServer) -> None:
    def send() -> None:
        for _ in range(20_000):
            child.train(BATCH)

    with opened(server, order(forward="raise ValueError('boom')")) as child:
        child.enter("fit", 20)
        with pytest.raises(ChildFailed, match="boom"):
            child.together(send, child.progress)
        child.finish = lambda: None  # type: ignore[method-assign] - the channel is closed


@pytest.mark.parametrize("forward", ["", "os._exit(0)", "1 / 0"])
def test_a_grandchild_is_gone_afterwards(server: ForkServer, tmp_path: Path, forward: str) -> None:
    note = tmp_path / "pid"
    top = f"open({str(note)!r}, 'w').write(str(subprocess.Popen(['sleep', '60']).pid))"
    try:
        with opened(server, order(top, forward)) as child:
            assert not gone_now(int(note.read_text()))
            predict(child)
    except ChildError:
        assert forward
    assert gone(int(note.read_text()))


def gone_now(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_gigabytes_of_print_do_not_block(server: ForkServer) -> None:
    with opened(server, order(forward="print('x' * 5_000_000)")) as child:
        assert predict(child).shape == (2, 3, 3)


def test_last_words_are_short(server: ForkServer) -> None:
    forward = "print('x' * 9_000 + 'end'); sys.stdout.flush(); os._exit(1)"
    caught, _ = ends(server, order(forward=forward))
    assert str(caught).endswith("xend")
    assert len(str(caught)) < 700


def test_a_childs_folder_is_its_own_and_gone_afterwards(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with opened(server, order(top="open('here.txt', 'w').write(os.getcwd())")):
        (folder,) = tmp_path.iterdir()
        assert (folder / "here.txt").read_text() == str(folder)
    assert not list(tmp_path.iterdir())


def test_an_environment_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "USER", "HOSTNAME"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    got = environment()
    assert "secret" not in got.values()
    assert got["CUDA_VISIBLE_DEVICES"] == "1"
    assert got["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert got["PATH"] == os.environ["PATH"]
    assert (got["OMP_NUM_THREADS"], got["OMP_WAIT_POLICY"]) == ("1", "PASSIVE")
    assert got["NUMBA_THREADING_LAYER"] == "workqueue"


STEPS = """
import resource, torch
from torch import nn
net = nn.Sequential(*(m for _ in range(4) for m in (nn.Linear(96, 96), nn.SiLU())))
x = torch.ones(8192, 96)
def faults():
    for _ in range(10):
        net(x).sum().backward()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(-faults() + faults())
"""


def test_freed_memory_is_kept_from_step_to_step() -> None:
    command = [sys.executable, "-c", STEPS]
    done = subprocess.run(command, env=environment(), capture_output=True, check=True)
    assert int(done.stdout) < 1_000, "left to itself, glibc asks for 1,360 pages a step"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "it left with exit code 0"),
        (3, "it left with exit code 3"),
        (-9, "it was ended by SIGKILL"),
        (-40, "it was ended by signal 40"),
    ],
)
def test_an_exit_says_how(code: int, text: str) -> None:
    assert str(Exit(code)) == text


class Scripted:
    """A process that says what it was told to."""

    def __init__(self, *frames: Frame) -> None:
        self.frames, self.channel = list(frames), self

    def receive(self, deadline: float, most: int = 0) -> Frame:  # noqa: ARG002
        assert deadline > 0
        return self.frames.pop(0)

    def send(self, kind: str, *_: Any, **arrays: Any) -> None: ...


def floats(*shape: int) -> Any:
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize(
    "frame",
    [
        Frame("built"),
        Frame("progress"),
        Frame("logits"),
        Frame("logits", {}, {"other": floats(2, 3, 3)}),
        Frame("logits", {}, {"logits": floats(2, 3, 4)}),
        Frame("logits", {}, {"logits": floats(18)}),
        Frame("logits", {}, {"logits": floats(2, 3, 3).astype(np.int32)}),
    ],
)
def test_an_answer_that_is_no_logits_is_refused(frame: Frame) -> None:
    child: Any = Child(Scripted(frame), n_classes=3)  # type: ignore[arg-type]
    with pytest.raises(ProtocolError, match=r"answer: got|logits: got"):
        child.logits(BATCH)


@pytest.mark.parametrize(
    "meta", [{}, {"step": 1}, {"step": "x", "loss": 1.0}, {"step": 1, "loss": None}, {"step": []}]
)
def test_a_progress_that_is_none_is_refused(meta: Any) -> None:
    with pytest.raises(ProtocolError):
        Child(Scripted(Frame("progress", meta)), 3).progress()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [{"parameters": "many"}, {"parameters": -1}, {"oversize": 1}, {"state_size": 1.5}, None],
)
def test_a_built_that_is_none_is_refused(change: Any) -> None:
    whole = {"parameters": 10, "oversize": False, "state_size": None}
    meta = {} if change is None else whole | change
    with pytest.raises(ProtocolError):
        Child(Scripted(Frame("built", meta)), 3).start(order())  # type: ignore[arg-type]


def test_in_process_is_for_a_debugger() -> None:
    launcher = InProcess("cpu", frozenset())
    with opened(launcher, order()) as child:
        assert predict(child).shape == (2, 3, 3)
    assert launcher.level == "none"
    with (
        pytest.raises(ChildFailed, match="in forward"),
        opened(launcher, order(forward="raise ValueError('in forward')")) as child,
    ):
        predict(child)
    launcher.close()


def test_fresh_interpreters() -> None:
    launcher = FreshInterpreters("cpu", frozenset())
    try:
        with opened(launcher, order(top="TRACE = os.environ.get('WANDB_API_KEY')")) as child:
            assert predict(child).shape == (2, 3, 3)
            warm = launcher._next[0].pid
        caught, _ = ends(launcher, order(forward="os._exit(3)"))
        assert "exit code 3" in str(caught)
        last = launcher._next[0].pid
        assert last != warm
    finally:
        launcher.close()
    assert gone(last)


def test_a_server_that_is_killed_and_one_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "secret")
    launcher = ForkServer("cpu", frozenset())
    killer = order("assert 'secret' not in str(os.environ), 'leak'", "os.kill(os.getppid(), 9)")
    caught, _ = ends(launcher, killer)
    assert isinstance(caught, ChildCrashed)
    assert "leak" not in str(caught)
    with opened(launcher, order()) as child:  # the next submission is not its victim
        predict(child)
    process: Any = launcher.start()
    launcher.close()
    assert gone(process._pid)
    process.channel.close()
