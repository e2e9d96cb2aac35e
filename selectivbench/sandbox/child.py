"""The child's side: build the submission, train it on what comes, predict what is asked.

It never imports tasks, seeds or oracle, and answers frame by frame; a failure is one ``error`` frame.
"""

from __future__ import annotations

import importlib.util
import math
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from selectivbench.errors import ChildCrashed, SelectivError, SubmissionError, explain
from selectivbench.sandbox.confine import Confinement, enter
from selectivbench.sandbox.orders import Order
from selectivbench.sandbox.protocol import Channel, Frame
from selectivbench.signals import packed

if TYPE_CHECKING:
    from selectivbench.backbone import ModelSpec


def serve(channel: Channel) -> None:
    """Answer a controller until it says ``finish`` or is gone."""
    name = ""
    try:
        order = Order.from_meta(channel.receive().meta)
        name = Path(order.origin).name
        if order.folder:  # before a line of the submission has run, so this can be believed
            locked = Confinement(order.level, order.user, order.device)
            channel.send("entered", enter(order.folder, locked))
        session = Session(order, channel)
        while session.handle(channel.receive()):
            pass
    except ChildCrashed:
        return  # the controller is gone: nobody is left to answer
    except BaseException as error:  # SystemExit from a submission is a failure too
        with suppress(ChildCrashed):  # the controller hung up first
            channel.send("error", describe(error, name))


def describe(error: BaseException, name: str) -> dict[str, str]:
    """What went wrong, as the submission's author wants to read it: only the frames of their file."""
    oom = isinstance(error, MemoryError) or "allocate memory" in str(error) or _cuda_oom(error)
    if isinstance(error, SelectivError):
        return {"status": "error", "text": str(error)}
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).name == name]
    lines = traceback.format_list(own) + traceback.format_exception_only(error)
    text = "".join(lines).replace(str(Path.cwd()) + os.sep, "")
    return {"status": "oom" if oom else "error", "text": text.strip()[-4000:]}


def _cuda_oom(error: BaseException) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(error, torch.cuda.OutOfMemoryError)


def load(order: Order) -> ModuleType:
    """Run a submission's file as a module of its own, from a copy in the child's folder."""
    path = Path(order.origin)
    if order.folder:
        path = Path(path.name)  # relative: the way to the folder may be closed to its user
        path.write_text(order.source, encoding="utf-8")
    spec = importlib.util.spec_from_loader(
        f"submission_{order.entry}", loader=None, origin=str(path)
    )
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses and triton look a module up by its name
    exec(compile(order.source, str(path), "exec", dont_inherit=True), module.__dict__)
    return module


def spec_of(order: Order) -> ModelSpec:
    """What an ordered model is to be, as its submission is told; of the first layer."""
    from selectivbench.backbone import ModelSpec

    size = order.size
    return ModelSpec(
        size.d_model,
        size.n_layers,
        0,
        order.max_length,
        size.n_heads,
        order.encoding.n_inputs,
        order.n_classes,
        d_state=size.d_state,
    )


def factory_of(module: ModuleType, kind: str) -> Callable[..., Any]:
    """A submission's ``Mixer`` or ``Model``; SubmissionError where that cannot be called."""
    name = "Mixer" if kind == "mixer" else "Model"
    factory = getattr(module, name, None)
    if not callable(factory):
        raise SubmissionError(explain(name, type(factory).__name__, f"a callable {name}(spec)"))
    return factory  # type: ignore[no-any-return]


class Session:
    """A built model with its trainer, and one method for each kind of frame."""

    def __init__(self, order: Order, channel: Channel) -> None:
        import torch

        from selectivbench.backbone import build, count
        from selectivbench.graphs import CudaRecorder
        from selectivbench.training import TrainConfig, Trainer

        self.order, self.channel = order, channel
        torch.set_num_threads(order.threads)
        if order.device == "cuda" and order.sharers > 1:  # its neighbours keep what is theirs
            torch.cuda.set_per_process_memory_fraction(1 / order.sharers)
        torch.manual_seed(order.init_seed)
        size, budget = order.size, order.budget
        spec = spec_of(order)
        module = load(order)
        self.own_probe = getattr(module, "probe", None)
        model = build(order.kind, factory_of(module, order.kind), spec, size)
        config = TrainConfig(
            budget.steps, budget.lr, budget.warmup, budget.clip, order.mode.precision
        )
        recorder = CudaRecorder() if order.mode.graphs else None
        self.trainer = Trainer(model, config, order.n_classes, order.device, size.dtype, recorder)
        built = {"parameters": count(model), "oversize": bool(getattr(model, "oversize", False))}
        channel.send("built", built | {"state_size": _state_size(module, spec)})

    def handle(self, frame: Frame) -> bool:
        """Do what a frame asks; False when it was the last one."""
        handlers: dict[str, Callable[[Frame], None]] = {
            "train": self._train,
            "report": self._report,
            "predict": self._predict,
            "save": self._save,
            "peek": self._peek,
            "load": self._load,
            "probe": self._probe,
            "steer": self._steer,
            "checkpoint": self._checkpoint,
            "resume": self._resume,
            "workload": self._begin_workload,
            "refill": self._refill,
            "work": self._work,
        }
        if frame.kind == "finish":
            return False
        handlers[frame.kind](frame)
        return True

    def _train(self, frame: Frame) -> None:
        self.trainer.step(self._inputs(frame), frame.arrays["targets"])

    def _report(self, frame: Frame) -> None:  # noqa: ARG002 - every handler takes its frame
        meta = {"step": self.trainer.steps_done, "loss": self.trainer.mean_loss()}
        graph = self.trainer.graph
        said = {"pieces": self.trainer.pieces, "graphs": "" if graph is None else graph.said}
        self.channel.send("progress", meta | said)

    def _predict(self, frame: Frame) -> None:
        self.channel.send("logits", logits=self.trainer.predict(self._inputs(frame)))

    def _save(self, frame: Frame) -> None:  # noqa: ARG002 - every handler takes its frame
        self.channel.send("state", state=self.trainer.state())

    def _peek(self, frame: Frame) -> None:
        """The state where it can be sent; else nothing, since the case goes on without it."""
        try:
            state = self.trainer.state()
        except Exception:  # whatever a submission does there
            state = None
        if state is None or state.size > frame.meta["most"]:
            self.channel.send("state")
        else:
            self.channel.send("state", state=state)

    def _load(self, frame: Frame) -> None:
        self.trainer.load(frame.arrays["state"])

    def _checkpoint(self, frame: Frame) -> None:  # noqa: ARG002 - every handler takes its frame
        self.channel.send("state", state=self.trainer.checkpoint())

    def _resume(self, frame: Frame) -> None:
        self.trainer.resume(frame.arrays["state"])

    def _probe(self, frame: Frame) -> None:
        from selectivbench.probes.listening import listen

        forward = partial(self.trainer.predict_at_once, self._inputs(frame))
        signals, logits = listen(self.trainer.model, forward, self.own_probe)
        meta, arrays = packed(signals)
        self.channel.send("signals", meta, math.inf, logits=logits, **arrays)

    def _steer(self, frame: Frame) -> None:
        import torch

        from selectivbench.probes.listening import steer

        gates = {
            key: torch.tensor(frame.arrays[f"g{i}"]) for i, key in enumerate(frame.meta["gates"])
        }
        forward = partial(self.trainer.predict_at_once, self._inputs(frame))
        self.channel.send("logits", logits=steer(self.trainer.model, forward, gates))

    def _begin_workload(self, frame: Frame) -> None:
        from selectivbench.sandbox.working import Working

        self.working = Working.begun(self.trainer.model, frame.meta, self.order.device)
        self.channel.send("ready", {"cannot": self.working.cannot})

    def _refill(self, frame: Frame) -> None:
        self.working.refill(frame.meta["repeats"])
        self.channel.send("ready")

    def _work(self, frame: Frame) -> None:
        self.channel.send("worked", self.working.work(frame.meta["repeats"]))

    def _inputs(self, frame: Frame) -> Any:
        return self.order.encoding.encode(frame.arrays["tokens"], frame.arrays["noise_seeds"])


def _state_size(module: ModuleType, spec: Any) -> int | None:
    """What the submission declares; checked to be a number, not to be true."""
    if not hasattr(module, "state_size"):
        return None
    size = module.state_size(spec)
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < 2**53:
        raise SubmissionError(
            explain("state_size(spec)", size, "a whole number of floats, 0 or more")
        )
    return size
