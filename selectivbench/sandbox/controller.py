"""The controller's side of one child: order, train, predict, with a deadline for each phase."""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selectivbench.batch import Batch
from selectivbench.errors import (
    ChildCrashed,
    ChildError,
    ChildFailed,
    ChildOutOfMemory,
    ChildTimeout,
    ProtocolError,
    explain,
)
from selectivbench.sandbox.launch import Exit, Launcher, Process
from selectivbench.sandbox.orders import Order
from selectivbench.sandbox.protocol import Frame

Logits = NDArray[np.float32]

BUILD_DEADLINE = 180.0
PREDICT_DEADLINE = 600.0


@dataclass(frozen=True)
class Built:
    """What a child said of the model it built."""

    parameters: int
    oversize: bool
    state_size: int | None


class Child:
    """A conversation with one child that has its order."""

    def __init__(self, process: Process, n_classes: int) -> None:
        self._process, self._n_classes = process, n_classes
        self.built = Built(0, False, None)
        self.exit: Exit | None = None
        self.phase, self._deadline = "build", math.inf

    def enter(self, phase: str, seconds: float) -> None:
        """Begin a phase that must be over within ``seconds``."""
        self.phase, self._deadline = phase, time.monotonic() + seconds

    def train(self, batch: Batch) -> None:
        """Send one training batch; the child trains while the next is made."""
        self._process.channel.send(
            "train", tokens=batch.tokens, noise_seeds=batch.noise_seeds, targets=batch.targets
        )

    def report(self) -> None:
        """Ask for the loss so far; ``progress`` reads the answer."""
        self._process.channel.send("report")

    def ask(self, batch: Batch) -> None:
        """Send inputs without their targets; ``logits`` reads the answer."""
        self._process.channel.send("predict", tokens=batch.tokens, noise_seeds=batch.noise_seeds)

    def progress(self) -> tuple[int, float]:
        """(steps done, mean training loss since the last report)."""
        meta = self._answer("progress").meta
        step, loss = meta.get("step"), meta.get("loss")
        if type(step) is not int or type(loss) is not float:
            raise ProtocolError(explain("progress", dict(meta), "a step and a loss"))
        return step, loss

    def logits(self, batch: Batch) -> Logits:
        """The answer to ``ask(batch)``: (B, T, n_classes), checked for its shape."""
        logits = self._answer("logits").arrays.get("logits")
        wanted = (*batch.tokens.shape, self._n_classes)
        if logits is None or logits.shape != wanted or logits.dtype != np.float32:
            got = None if logits is None else (logits.shape, logits.dtype.name)
            raise ProtocolError(explain("logits", got, f"{wanted} float32"))
        return logits

    def together(self, send: Callable[[], None], receive: Callable[[], Any]) -> Any:
        """Send from a second thread while answers are read here, so that both sides keep busy."""
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(self._or_hang_up, send)
            try:
                result = receive()
            except BaseException:
                self._process.channel.close()  # wakes the sender
                cause = sending.exception()
                if cause is not None and not isinstance(cause, ChildError):
                    raise cause from None  # the data could not be made: that is the story
                raise
            sending.result()
            return result

    def _or_hang_up(self, send: Callable[[], None]) -> None:
        try:
            send()
        except ChildCrashed:
            raise  # its last frame may still wait to be read: leave the channel open
        except BaseException:
            self._process.channel.close()  # wakes the reader
            raise

    def _answer(self, kind: str) -> Frame:
        frame = self._process.channel.receive(self._deadline)
        if frame.kind == "error":
            oom = frame.meta.get("status") == "oom"
            raise (ChildOutOfMemory if oom else ChildFailed)(str(frame.meta.get("text")))
        if frame.kind != kind:
            raise ProtocolError(explain("answer", frame.kind, kind))
        return frame

    def start(self, order: Order) -> None:
        """Send the order and wait until the model is built."""
        self.enter("build", BUILD_DEADLINE)
        self._process.channel.send("order", order.to_meta())
        meta = self._answer("built").meta
        self.built = _built(meta)

    def finish(self) -> None:
        """Say that no more is wanted."""
        self._process.channel.send("finish")


def _built(meta: Mapping[str, Any]) -> Built:
    """What a child said, of whatever types it chose."""
    parameters, oversize, state = (
        meta.get(name) for name in ("parameters", "oversize", "state_size")
    )
    if type(parameters) is not int or type(oversize) is not bool:
        raise ProtocolError(explain("built", dict(meta), "a count of parameters, true or false"))
    if not (state is None or type(state) is int) or min(parameters, state or 0) < 0:
        raise ProtocolError(explain("built", dict(meta), "counts of 0 or more"))
    return Built(parameters, oversize, state)


@contextmanager
def opened(launcher: Launcher, order: Order) -> Iterator[Child]:
    """A child that has built its model; everything it started is gone at the end."""
    process = launcher.start()
    folder = tempfile.mkdtemp(prefix="selectiv-") if launcher.level != "none" else ""
    child = Child(process, order.n_classes)
    try:
        child.start(replace(order, folder=folder))
        yield child
        child.finish()
    except (ChildTimeout, ChildCrashed) as error:
        child.exit = process.end()
        raise _explained(error, child, folder) from error
    finally:
        if child.exit is None:
            child.exit = process.end()
        shutil.rmtree(folder, ignore_errors=True)


def _explained(error: ChildError, child: Child, folder: str) -> ChildError:
    """The same failure with its phase, how the process ended, and the last that it printed."""
    printed = _last_words(folder)
    if isinstance(error, ChildTimeout):
        return ChildTimeout(f"no answer in phase {child.phase!r} before its deadline.{printed}")
    return ChildCrashed(
        f"the submission's process went away in phase {child.phase!r}: {child.exit}.{printed}"
    )


def _last_words(folder: str) -> str:
    path = Path(folder) / "output.txt"
    if not folder or not path.is_file():
        return ""
    text = path.read_bytes()[-500:].decode(errors="replace").strip()
    return f" It last printed: {text}" if text else ""
