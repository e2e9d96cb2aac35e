"""The controller's side of one child: order, train, predict, with a deadline for each phase."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

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
from selectivbench.sandbox.exits import UNWATCHED, Exit
from selectivbench.sandbox.folders import own_folder
from selectivbench.sandbox.launch import Launcher, Process
from selectivbench.sandbox.orders import Order
from selectivbench.sandbox.protocol import Frame
from selectivbench.sandbox.states import State, largest, usual
from selectivbench.signals import Signal, unpacked

Logits = NDArray[np.float32]

BUILD_DEADLINE = 180.0
PREDICT_DEADLINE = 600.0
FINISH_DEADLINE = 10.0
LARGEST_SIGNALS = 1 << 29
"""Bytes of one answer to a probe."""
LONGEST_TEXT = 4_000
"""Characters of a traceback that are kept."""


@dataclass(frozen=True)
class Built:
    """What a child said of the model it built."""

    parameters: int
    oversize: bool
    state_size: int | None


@dataclass(frozen=True)
class Work:
    """What a child says of one round: seconds that the device was busy, bytes at the peak, bytes that
    one sequence carries from step to step."""

    busy: float
    memory: int | None
    state_bytes: int | None


class Child:
    """A conversation with one child that has its order."""

    def __init__(self, process: Process, n_classes: int, ordered: int = 0) -> None:
        self._process, self._n_classes, self._ordered = process, n_classes, ordered
        self.built = Built(0, False, None)
        self.entered: Mapping[str, Any] = {}
        self.exit: Exit | None = None
        self.pieces, self.graphs = 1, ""
        self.lived, self._born = 0.0, time.monotonic()
        self.phase, self._deadline = "build", math.inf

    def enter(self, phase: str, seconds: float) -> None:
        """Begin a phase that must be over within ``seconds``."""
        self.phase, self._deadline = phase, time.monotonic() + seconds

    def train(self, batch: Batch) -> None:
        """Send one training batch; the child trains while the next is made."""
        self._send(
            "train", tokens=batch.tokens, noise_seeds=batch.noise_seeds, targets=batch.targets
        )

    def report(self) -> None:
        """Ask for the loss so far; ``progress`` reads the answer."""
        self._send("report")

    def ask(self, batch: Batch) -> None:
        """Send inputs without their targets; ``logits`` reads the answer."""
        self._send("predict", tokens=batch.tokens, noise_seeds=batch.noise_seeds)

    def progress(self) -> tuple[int, float]:
        """(steps done, mean training loss since the last report)."""
        meta = self._answer("progress").meta
        step, loss, pieces = meta.get("step"), meta.get("loss"), meta.get("pieces")
        graphs = meta.get("graphs")
        if not _whole(step) or type(loss) is not float or not _whole(pieces):
            allowed = "a whole step, a float loss, whole pieces"
            raise ProtocolError(explain("progress", dict(meta), allowed))
        if type(graphs) is not str:
            raise ProtocolError(explain("progress", dict(meta), "a text about graphs"))
        self.pieces, self.graphs = pieces, printable(graphs)[:LONGEST_TEXT]
        return step, loss

    def logits(self, batch: Batch) -> Logits:
        """The answer to ``ask(batch)``: (B, T, n_classes), checked for its shape."""
        size = math.prod(batch.tokens.shape) * self._n_classes * 4
        return self._logits(self._answer("logits", size), batch)

    def _logits(self, frame: Frame, batch: Batch) -> Logits:
        wanted = (*batch.tokens.shape, self._n_classes)
        logits = frame.arrays.get("logits")
        if logits is None or logits.shape != wanted or logits.dtype != np.float32:
            got = None if logits is None else (logits.shape, logits.dtype.name)
            raise ProtocolError(explain("logits", got, f"{wanted} float32"))
        return logits

    def probe(self, batch: Batch) -> tuple[tuple[Signal, ...], Logits]:
        """What the layers do at every step of a batch, and the logits of that pass."""
        self._send("probe", tokens=batch.tokens, noise_seeds=batch.noise_seeds)
        frame = self._answer("signals", LARGEST_SIGNALS)
        signals = unpacked(frame.meta, frame.arrays, *batch.tokens.shape)
        return signals, self._logits(frame, batch)

    def steer(self, batch: Batch, gates: Mapping[str, NDArray[np.float32]]) -> Logits:
        """The logits with other values, (C,) or (B, T, C), in the place of gates, by signal key."""
        arrays: dict[str, NDArray[Any]] = {
            f"g{i}": values for i, values in enumerate(gates.values())
        }
        arrays |= {"tokens": batch.tokens, "noise_seeds": batch.noise_seeds}
        self._send("steer", {"gates": list(gates)}, **arrays)
        return self.logits(batch)

    def state(self) -> State:
        """The trained state, for another child to predict with."""
        self._send("save")
        return self._state()

    def peek(self) -> State | None:
        """The trained state, for a look; None where it cannot be had, which is no failure."""
        self._send("peek", {"most": self._largest_state})
        frame = self._answer("state", self._largest_state)
        with suppress(ProtocolError):
            return State.sent(frame.arrays.get("state"))
        return None

    def load(self, state: State) -> None:
        """Give a child that was not trained the state of one that was."""
        self._send("load", state=state.raw)

    def ask_checkpoint(self) -> None:
        """Ask for all that the next step depends on; ``checkpoint`` reads the answer."""
        self._send("checkpoint")

    def checkpoint(self) -> State:
        """Model, optimiser, generators and the number of steps done."""
        return self._state()

    def resume(self, checkpoint: State) -> None:
        """Let a child that has just been built go on from a checkpoint."""
        self._send("resume", state=checkpoint.raw)

    def _state(self) -> State:
        return State.sent(self._answer("state", self._largest_state).arrays.get("state"))

    @property
    def _largest_state(self) -> int:
        return largest(self.built.parameters, self._ordered)

    def begin_workload(self, load: Mapping[str, Any]) -> str:
        """Have a workload made; the reason why not, where the layer has no way to do it."""
        self._process.channel.send("workload", load)
        return printable(str(self._answer("ready").meta.get("cannot") or ""))[-LONGEST_TEXT:]

    def refill(self, repeats: int) -> None:
        """Let it get ready for a round of so many repeats."""
        self._process.channel.send("refill", {"repeats": repeats})
        self._answer("ready")

    def work(self, repeats: int) -> Work:
        """One round, and what the child says of it."""
        self._process.channel.send("work", {"repeats": repeats})
        meta = self._answer("worked").meta
        busy, memory, state = (meta.get(name) for name in ("busy", "memory", "state_bytes"))
        if not (type(busy) is float and 0 < busy < math.inf):
            raise ProtocolError(explain("worked", dict(meta), "busy seconds, more than 0"))
        if not all(value is None or _whole(value) for value in (memory, state)):
            raise ProtocolError(explain("worked", dict(meta), "whole numbers of bytes, 0 or more"))
        return Work(busy, memory, state)

    def together(self, send: Callable[[], None], receive: Callable[[], Any]) -> Any:
        """Send from a second thread while answers are read here, so that both sides keep busy."""
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(self._or_hang_up, send)
            try:
                result = receive()
            except BaseException:
                self._process.channel.close()  # wakes the sender
                cause = sending.exception()
                ours = cause is not None and not isinstance(cause, ChildError)
                if cause is not None and (ours or isinstance(cause, ChildTimeout)):
                    raise cause from None  # no data could be made, or none was taken: the story
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

    def _answer(self, kind: str, most: int = 0) -> Frame:
        """The next frame, which must be of a kind and within ``most`` bytes of arrays."""
        frame = self._process.channel.receive(self._deadline, most)
        if frame.kind == "error":
            oom = frame.meta.get("status") == "oom"
            text = printable(str(frame.meta.get("text")))[-LONGEST_TEXT:]
            raise (ChildOutOfMemory if oom else ChildFailed)(text)
        if frame.kind != kind:
            raise ProtocolError(explain("answer", frame.kind[:100], kind))
        return frame

    def start(self, order: Order) -> None:
        """Send the order and wait until the model is built."""
        self.enter("build", BUILD_DEADLINE)
        self._send("order", order.to_meta())
        if order.folder:
            self.entered = self._answer("entered").meta
        self.built = _built(self._answer("built").meta)

    def finish(self) -> None:
        """Say that no more is wanted."""
        self.enter("finish", FINISH_DEADLINE)
        self._send("finish")

    def end(self) -> Exit:
        """Kill it if it still runs; keeps how it ended and the seconds that it lived."""
        self.exit = self._process.end()
        self.lived = time.monotonic() - self._born
        return self.exit

    def _send(self, kind: str, meta: Mapping[str, Any] | None = None, **arrays: Any) -> None:
        self._process.channel.send(kind, meta, self._deadline, **arrays)


def _built(meta: Mapping[str, Any]) -> Built:
    parameters, oversize, size = (meta.get(k) for k in ("parameters", "oversize", "state_size"))
    if not _whole(parameters) or type(oversize) is not bool or not (size is None or _whole(size)):
        raise ProtocolError(explain("built", dict(meta), "whole numbers and a truth value"))
    return Built(parameters, oversize, size)


def printable(text: str) -> str:
    """Without what could command a terminal: a submission's words are shown to people."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)


def _whole(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 1 << 53


@contextmanager
def opened(launcher: Launcher, order: Order) -> Iterator[Child]:
    """A child that has built its model; everything it started is gone at the end."""
    process = launcher.start()
    child = Child(process, order.n_classes, usual(order.size))
    with own_folder(launcher.isolation.level, process.user) as folder:
        place = replace(order, folder=folder, level=launcher.isolation.level, user=process.user)
        try:
            child.start(place)
            yield child
            child.finish()
        except (ChildTimeout, ChildCrashed) as error:
            child.end()
            raise _explained(error, child) from error
        finally:
            if child.exit is None:
                child.end()
        if child.exit is UNWATCHED:
            raise _explained(ChildCrashed(str(child.exit)), child)


def _explained(error: ChildError, child: Child) -> ChildError:
    """The same failure with its phase, how the process ended, and the last that it printed."""
    assert child.exit is not None, "it was ended first"
    text = printable(child.exit.output).strip()[-500:]
    printed = f" It last printed: {text}" if text else ""
    if child.exit.out_of_memory:
        return ChildOutOfMemory(f"in phase {child.phase!r}: {child.exit}.{printed}")
    if isinstance(error, ChildTimeout):
        return ChildTimeout(f"no answer in phase {child.phase!r} before its deadline.{printed}")
    return ChildCrashed(
        f"the submission's process went away in phase {child.phase!r}: {child.exit}.{printed}"
    )
