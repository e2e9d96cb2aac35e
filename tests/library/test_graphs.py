"""Steps that are recorded and replayed: with a stand-in for what records, and on a GPU where one is."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from selectivbench.graphs import LONGEST_NOTE, WARM, CudaRecorder, give_memory_back
from selectivbench.training import TrainConfig, Trainer

RNG = np.random.default_rng(0)
BATCHES = [
    (RNG.normal(size=(4, 6, 5)).astype(np.float32), RNG.integers(0, 3, (4, 6)).astype(np.int32))
    for _ in range(9)
]


class StandIn:
    """Records by keeping the function; a replay calls it. Counts what it is asked for."""

    def __init__(self, refusal: Exception | None = None) -> None:
        self.refusal = refusal
        self.asides = self.records = self.replays = self.forgets = 0

    def aside(self, do: Callable[[], Tensor]) -> Tensor:
        self.asides += 1
        return do()

    def record(self, do: Callable[[], Tensor]) -> Callable[[], Tensor]:
        self.records += 1
        if self.refusal is not None:
            raise self.refusal

        def replay() -> Tensor:
            self.replays += 1
            return do()

        return replay

    def forget(self) -> None:
        self.forgets += 1


class Remembering(nn.Sequential):
    """Where its inputs lay, and what was in them."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__(*layers)
        self.seen: list[tuple[int, float]] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append((x.data_ptr(), float(x.sum())))
        y: Tensor = super().forward(x)
        return y


def trainer(recorder: Any = None, device: str = "cpu", **changes: Any) -> Trainer:
    torch.manual_seed(1)
    model = Remembering(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    config = TrainConfig(**{"steps": 9, "lr": 1e-2, "warmup": 2, "clip": 1.0, **changes})
    return Trainer(model, config, 3, device, recorder=recorder)


def losses(of: Trainer, batches: Any = BATCHES) -> list[float]:
    found = []
    for batch in batches:
        of.step(*batch)
        found.append(of.mean_loss())
    return found


@pytest.mark.parametrize("precision", [None, "bf16"])
def test_replayed_steps_are_the_eager_ones(precision: str | None) -> None:
    recorder = StandIn()
    graphed, eager = trainer(recorder, precision=precision), trainer(precision=precision)
    assert losses(graphed) == pytest.approx(losses(eager), rel=1e-6)
    for one, other in zip(graphed.parameters, eager.parameters, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)
    assert (recorder.asides, recorder.records, recorder.replays) == (WARM, 1, 9 - WARM)
    assert graphed.graph is not None
    assert graphed.graph.said == "replayed"


def test_each_batch_is_copied_to_where_the_first_one_was_recorded() -> None:
    t = trainer(StandIn())
    losses(t)
    replayed = t.model.seen[WARM:]
    assert len({place for place, _ in replayed}) == 1
    wanted = [float(x.sum()) for x, _ in BATCHES[WARM:]]
    assert [total for _, total in replayed] == pytest.approx(wanted, abs=1e-4)


def test_the_rate_is_read_anew_at_each_replay() -> None:
    still = [BATCHES[0]] * 9
    falling, flat = trainer(StandIn()), trainer(StandIn())
    losses(falling, still)
    flat.config = TrainConfig(steps=900, lr=1e-2, warmup=2, clip=1.0)
    losses(flat, still)
    assert not torch.equal(falling.parameters[0], flat.parameters[0])
    (group,) = falling.optimiser.param_groups
    assert float(group["lr"]) == pytest.approx(falling.config.rate(8))


def test_what_cannot_be_recorded_is_done_eagerly_and_said_once() -> None:
    recorder = StandIn(RuntimeError("operation not permitted when stream is capturing" * 20))
    t = trainer(recorder)
    assert losses(t) == pytest.approx(losses(trainer()), rel=1e-6)
    assert recorder.records == 1
    assert t.graph is not None
    assert t.graph.said.startswith("eager: RuntimeError: operation not permitted when stream")
    assert len(t.graph.said) == LONGEST_NOTE
    assert recorder.forgets == 1


def test_what_is_said_is_what_went_wrong_first() -> None:
    """As torch does: the recording's end fails too, and hides why."""

    class Broken(StandIn):
        def record(self, do: Callable[[], Tensor]) -> Callable[[], Tensor]:  # noqa: ARG002 - a recorder's
            try:
                raise ValueError("a look at the host")
            finally:
                raise RuntimeError("operation failed due to a previous error during capture")

    t = trainer(Broken())
    losses(t, BATCHES[: WARM + 1])
    assert t.graph is not None
    assert t.graph.said == "eager: ValueError: a look at the host"


def test_nothing_holds_what_was_recorded_once_it_is_to_be_forgotten() -> None:
    """Without a garbage collection: memory that a graph has taken is not to wait for one."""

    class Failing(StandIn):
        taken: weakref.ref[Tensor]
        left: Tensor | None

        def record(self, do: Callable[[], Tensor]) -> Callable[[], Tensor]:  # noqa: ARG002 - a recorder's
            memory = torch.zeros(3)
            self.taken = weakref.ref(memory)
            raise RuntimeError("operation not permitted when stream is capturing")

        def forget(self) -> None:
            self.left = self.taken()

    recorder = Failing()
    gc.disable()
    try:
        losses(trainer(recorder), BATCHES[: WARM + 1])
    finally:
        gc.enable()
    assert recorder.left is None


def test_memory_that_cannot_be_given_back_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise RuntimeError("captures_underway.empty() INTERNAL ASSERT FAILED")

    monkeypatch.setattr(torch.cuda, "empty_cache", refuse)
    give_memory_back()


@pytest.mark.parametrize("where", ["plain", "buffer", "list", "nested"])
def test_a_tensor_that_a_module_replaces_lives_as_long_as_the_graph_that_reads_it(
    where: str,
) -> None:
    t = trainer(StandIn())
    layer: Any = t.model.get_submodule("0")
    table = torch.zeros(3)
    if where == "buffer":
        layer.register_buffer("table", table)
    else:
        layer.table = {"plain": table, "list": [table], "nested": {6: (table, 3)}}[where]
    read = weakref.ref(table)
    del table
    losses(t, BATCHES[: WARM + 1])
    layer.table = torch.zeros(6)  # in an evaluation of longer sequences
    assert read() is not None
    assert t.graph is not None
    t.graph.give_up("of another shape")
    assert read() is None


def test_a_batch_of_another_shape_ends_the_replays() -> None:
    recorder = StandIn()
    shorter = [(x[:, :4], y[:, :4]) for x, y in BATCHES]
    batches = [*BATCHES[:6], *shorter[6:8], BATCHES[8]]
    t = trainer(recorder)
    assert losses(t, batches) == pytest.approx(losses(trainer(), batches), rel=1e-6)
    assert recorder.replays == 6 - WARM
    assert t.graph is not None
    assert t.graph.said == "eager: a batch had another shape"


def test_a_batch_that_is_split_ends_them_before_they_begin() -> None:
    class Small(Remembering):
        def forward(self, x: Tensor) -> Tensor:
            if len(x) > 2:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return super().forward(x)

    recorder = StandIn()
    t = trainer(recorder)
    t.model.__class__ = Small
    assert losses(t) == pytest.approx(losses(trainer()), rel=1e-5)
    assert (recorder.asides, recorder.records, t.pieces) == (1, 0, 2)
    assert t.graph is not None
    assert t.graph.said == "eager: a batch was split to fit the memory"


def test_memory_that_runs_out_while_recording_leaves_eager_steps() -> None:
    recorder = StandIn(torch.OutOfMemoryError("CUDA out of memory."))
    t = trainer(recorder)
    assert losses(t) == pytest.approx(losses(trainer()), rel=1e-6)
    assert t.pieces == 1


def test_after_a_resume_the_step_is_recorded_anew() -> None:
    whole = trainer(StandIn())
    losses(whole, BATCHES[:6])
    kept = whole.checkpoint()
    recorder = StandIn()
    resumed = trainer(recorder)
    losses(resumed, BATCHES[:5])
    resumed.resume(kept)
    assert losses(resumed, BATCHES[6:]) == pytest.approx(losses(whole, BATCHES[6:]), rel=1e-6)
    assert (recorder.asides, recorder.records) == (WARM + 3, 1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU; none is here")
@pytest.mark.parametrize("precision", [None, "bf16"])
def test_on_a_gpu_replayed_steps_are_the_eager_ones(precision: str | None) -> None:
    recorder = CudaRecorder()
    graphed = trainer(recorder, "cuda", precision=precision)
    eager = trainer(None, "cuda", precision=precision)
    graphed.model.__class__ = eager.model.__class__ = nn.Sequential  # no look at the host
    assert losses(graphed) == pytest.approx(losses(eager), rel=1e-4)
    assert graphed.graph is not None
    assert graphed.graph.said == "replayed"
    np.testing.assert_allclose(graphed.predict(BATCHES[0][0]), eager.predict(BATCHES[0][0]), 1e-3)
