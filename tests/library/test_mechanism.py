"""The controller's side of a probe: what each step is, effects, interventions, the report."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from selectivbench.batch import IGNORE
from selectivbench.cli import main
from selectivbench.errors import ChildFailed, ProtocolError, RecordError, UsageError
from selectivbench.job import Job
from selectivbench.machine import Device
from selectivbench.mechanism import asking
from selectivbench.mechanism.asking import Asked, job_of, with_probe
from selectivbench.mechanism.attention import looks, reachable, received
from selectivbench.mechanism.effects import Effect, effect, summary
from selectivbench.mechanism.hearing import Part, figure
from selectivbench.mechanism.probing import Wanted, probe
from selectivbench.mechanism.report import Probe, rounded, table
from selectivbench.mechanism.steering import clamp, partners, steerable, swap
from selectivbench.profiles import EarlyStop, get_profile
from selectivbench.record import Evaluation, Finding, Record
from selectivbench.runner import run
from selectivbench.sandbox.launch import InProcess
from selectivbench.saved import SavedModels
from selectivbench.signals import Signal, packed, unpacked
from selectivbench.submission import load
from selectivbench.tasks import TASKS, Dataset, get_task
from selectivbench.tasks.base import DISTRACTOR, FILLER, KINDS, QUERY, SYMBOL, TO_IGNORE
from selectivbench.tracking import NullTracker

FOLDER = Path(__file__).parents[2] / "submissions"
EVERY = [(t.name, p, v) for t in TASKS for p in ("smoke", "lite") for v in t.variants[p]]


def letters(data: Dataset, split: str = "train", index: int = 0) -> str:
    kinds = data.kinds(data.batch(split, [index]))[0]
    return "".join("-" if kind == IGNORE else KINDS[kind][0] for kind in kinds)


@pytest.mark.parametrize(
    ("task", "index", "steps"),
    [
        ("selective_copy", 4, "sfffffffffsffssfqqqq"),
        ("noisy_gaps", 4, "snnnnnsnnnnsnnns"),
        ("distractors", 4, "sssssssssssdssss"),
        ("mqar", 4, "ssssssssqfqfffff"),
        ("induction", 4, "ddssdddddddddddddddddddddddddddq"),
        ("next_symbol", 4, "sfsfsfsf"),
    ],
)
def test_what_each_step_is(task: str, index: int, steps: str) -> None:
    data = get_task(task).dataset("smoke", get_task(task).variants["smoke"][0], 2)
    assert letters(data, index=index).startswith(steps)


@pytest.mark.parametrize(("task", "profile", "variant"), EVERY)
def test_every_step_of_every_task_has_a_kind(task: str, profile: str, variant: str) -> None:
    data = get_task(task).dataset(profile, variant, 1)
    batch = data.batch("validation", np.arange(20))
    kinds = data.kinds(batch)
    assert kinds.shape == batch.tokens.shape
    assert ((kinds == IGNORE) == (batch.tokens < -1)).all()
    assert (kinds == SYMBOL).any()
    assert np.isin(kinds, TO_IGNORE).any()


def test_the_end_of_a_string_is_no_symbol() -> None:
    data = get_task("memorization").dataset("lite", "amb8", 1)
    batch = data.batch("validation", np.arange(20))
    ends = data.kinds(batch) == KINDS.index("end")
    assert ends.any()
    assert (batch.tokens[ends] == data.symbol_names.index("#")).all()


TOY_KINDS = np.array([[SYMBOL, FILLER, SYMBOL, FILLER, QUERY, IGNORE]], np.int8)
TOY = np.array([[1.0, 0.0, 3.0, 2.0, 9.0, 99.0]], np.float32)[..., None]


def test_an_effect_worked_out_by_hand() -> None:
    """Means 2 and 1, variances 2 and 2: (2 - 1) / sqrt(2). The query and padding do not count."""
    got = effect(TOY, TOY_KINDS)
    assert got is not None
    assert got.value == pytest.approx(1 / math.sqrt(2))
    assert got.typical == pytest.approx(1 / math.sqrt(2))


def test_channels_of_opposite_sign_cancel_in_the_mean_and_show_in_the_typical() -> None:
    got = effect(np.concatenate([TOY, -TOY], axis=2), TOY_KINDS)
    assert got == Effect(0.0, 0.0, 0.0, pytest.approx(1 / math.sqrt(2)), 0.5)


def test_the_interval_narrows_with_sequences_and_holds_the_effect() -> None:
    rng = np.random.default_rng(0)
    kinds = np.tile(np.array([SYMBOL, FILLER], np.int8), (400, 10))
    values = rng.normal(size=(400, 20, 1)).astype(np.float32)
    values[kinds == SYMBOL] += 1.0
    few, many = effect(values[:20], kinds[:20]), effect(values, kinds)
    assert few is not None
    assert many is not None
    for got in (few, many):
        assert got.low < got.value < got.high  # type: ignore[operator]
    assert many.high - many.low < (few.high - few.low) / 2  # type: ignore[operator]
    assert many.value == pytest.approx(1.0, abs=0.05)
    assert many.high - many.low == pytest.approx(
        2 * 1.96 * math.sqrt(2 / 4_000 + 1 / 16_000), rel=0.2
    )


def test_a_constant_has_an_effect_of_exactly_nothing() -> None:
    kinds = np.tile(TOY_KINDS, (7, 1))
    constant = np.full((7, 6, 3), 0.1, np.float32)
    assert effect(constant, kinds) == Effect(0.0, 0.0, 0.0, 0.0, 0.0)


def test_what_never_varies_within_a_kind_but_differs_between_them_has_no_number() -> None:
    values = np.where(TOY_KINDS == SYMBOL, 0.9, 0.1).astype(np.float32)[..., None]
    assert effect(values, TOY_KINDS) == Effect(None, None, None, None, 1.0)


def test_one_kind_alone_has_no_effect() -> None:
    assert effect(TOY, np.where(TOY_KINDS == SYMBOL, QUERY, TOY_KINDS).astype(np.int8)) is None


def test_a_summary_is_over_steps_and_channels() -> None:
    values = np.stack([TOY[..., 0], 10 * TOY[..., 0]], axis=-1)
    got = summary(values, TOY_KINDS == SYMBOL)
    assert (got.steps, got.mean) == (2, 11.0)
    assert got.quantiles[2] == 6.5
    assert got.sd == pytest.approx(np.std([1, 3, 10, 30]))


def attention(weights: Any) -> Signal:
    return Signal("0", "attention", "read", np.array(weights, np.float32)[None, None])


def test_where_attention_goes_worked_out_by_hand() -> None:
    kinds = np.array([[SYMBOL, FILLER, QUERY, FILLER]], np.int8)
    asked = np.array([[False, False, True, False]])
    signal = attention([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.7, 0.1, 0.2, 0], [0.1, 0.2, 0.3, 0.4]])
    got = looks(signal, kinds, asked)
    assert got.steps == 1
    share = dict(zip(KINDS, got.kinds[0], strict=True))
    assert share["symbol"] == pytest.approx(0.7)
    assert share["query"] == pytest.approx(0.2)
    np.testing.assert_allclose(got.evenly[[SYMBOL, FILLER, QUERY]], 1 / 3)
    np.testing.assert_allclose(got.distances[0], [0.2, 0.1, 0.7, 0.0], rtol=1e-6)
    assert (got + got).steps == 2
    np.testing.assert_allclose(
        received(signal, asked).values[0, :, 0], [2.1, 0.3, 0.6, 0], rtol=1e-6
    )
    assert reachable(asked).tolist() == [[True, True, True, False]]


def test_even_attention_is_received_evenly() -> None:
    steps = 6
    even = np.tril(np.ones((steps, steps))) / np.arange(1, steps + 1)[:, None]
    asked = np.array([[False, True, False, True, True, True]])
    got = received(attention(even), asked)
    np.testing.assert_allclose(got.values, 1.0, rtol=1e-6)


def test_swapping_pairs_symbols_with_fillers() -> None:
    kinds = np.array([[SYMBOL, FILLER, FILLER, QUERY, SYMBOL, DISTRACTOR, SYMBOL]] * 50, np.int8)
    partner = partners(kinds, seed=1)
    rows = np.arange(50)[:, None]
    assert (partner[rows, partner] == np.arange(7)).all()  # an exchange undoes itself
    moved = partner != np.arange(7)
    assert (moved.sum(axis=1) == 6).all()
    assert not moved[:, 3].any()
    assert ((kinds == SYMBOL) == (kinds[rows, partner] != SYMBOL))[moved].all()
    assert len({tuple(row) for row in partner}) > 3
    control = partners(kinds, seed=1, control=True)
    moved = control != np.arange(7)
    assert (moved.sum(axis=1) == 2).all()
    assert np.isin(kinds[moved], TO_IGNORE).all()
    assert (partners(kinds, seed=1) == partner).all()
    assert (partners(kinds, seed=2) != partner).any()


def test_what_is_put_in_place() -> None:
    gate = Signal("0", "g", "forget", TOY, gate=True)
    read = Signal("0", "o", "read", TOY, gate=True)
    assert steerable([gate, read, replace(gate, gate=False)]) == (gate,)
    held = clamp([gate], TOY_KINDS)(slice(0, 1))
    np.testing.assert_allclose(held["0/g"], [3.0])  # the mean of 1, 0, 3, 2, 9: padding is left out
    partner = np.array([[1, 0, 2, 3, 4, 5]])
    swapped = swap([gate], partner)(slice(0, 1))["0/g"]
    assert swapped[0, :, 0].tolist() == [0, 1, 3, 2, 9, 99]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"signals": 3}, "1 to 200"),
        ({"signals": []}, "1 to 200"),
        ({"signals": [{}]}, "layer, name, role"),
        (
            {"signals": [{"layer": 1, "name": "g", "role": "read", "gate": True, "fixed": ""}]},
            "text",
        ),
        ({"role": "other"}, "a role of"),
        ({"name": "\x1b[2J"}, "a role of"),
        ({"name": "x" * 61}, "60 characters"),
        ({"fixed": "a\nb"}, "one line"),
        ({"values": np.zeros((2, 3), np.float32)}, r"\(1, 6, C\)"),
        ({"values": np.zeros((1, 5, 1), np.float32)}, r"\(1, 6, C\)"),
        ({"values": np.zeros((1, 6, 0), np.float32)}, r"\(1, 6, C\)"),
        ({"values": np.zeros((1, 2, 6, 5), np.float32)}, r"\(1, H, 6, 6\)"),
        ({"values": np.zeros((1, 6, 1), np.int32)}, "float32"),
        ({"values": np.full((1, 6, 1), np.nan, np.float32)}, "finite"),
    ],
)
def test_a_strangers_signals_are_checked(change: dict[str, Any], words: str) -> None:
    good = Signal("0", "g", "forget", TOY, gate=True)
    assert unpacked(*packed([good]), 1, 6)[0].key == "0/g"
    if "signals" in change:
        meta, arrays = change, packed([good])[1]
    else:
        meta, arrays = packed([replace(good, **change)])
    with pytest.raises(ProtocolError, match=words):
        unpacked(meta, arrays, 1, 6)


def test_two_signals_of_one_name_are_refused() -> None:
    twin = Signal("0", "g", "forget", TOY)
    with pytest.raises(ProtocolError, match="two of one layer and name"):
        unpacked(*packed([twin, twin]), 1, 6)


def test_the_marks_of_sequences_add_up_to_the_figure() -> None:
    data = get_task("memorization").dataset("smoke", "amb8", 1)
    batch = data.batch("test", np.arange(6))
    logits = np.zeros((*batch.tokens.shape, data.n_classes), np.float32)
    right = np.where(batch.targets >= 0, batch.targets, 0)
    np.put_along_axis(logits[:3], right[:3, :, None].astype(np.int64), 5.0, axis=2)
    logits[3:, :, right[3:].max()] = -5.0
    part = Part(slice(0, 6), batch, None)
    marks = part.marks(logits)
    assert marks.shape == (6, 2)
    assert (marks[:3, 0] == marks[:3, 1]).all()
    assert figure(marks) == marks[:, 0].sum() / marks[:, 1].sum()
    with pytest.raises(ProtocolError, match="NaN or infinity"):
        part.marks(np.full_like(logits, np.nan))


@pytest.fixture(scope="module")
def launcher() -> InProcess:
    return InProcess("cpu", frozenset({"fla"}))


def job(name: str, task: str = "selective_copy", steps: int = 2) -> Job:
    asked = Asked(FOLDER / f"{name}.py", task, profile="smoke", steps=steps, device="cpu")
    return job_of(asked)


def probed(launcher: InProcess, name: str, **changes: Any) -> Probe:
    wanted = Wanted(sequences=20, clamp=True, swap=True)
    return probe(job(name, **changes), launcher, NullTracker(), wanted)


def test_a_probe_of_a_selective_layer(launcher: InProcess) -> None:
    found = probed(launcher, "lstm")
    assert (found.sequences, found.steps, found.split) == (20, 2, "test")
    assert {s.name for s in found.signals} == {"input gate", "forget gate", "output gate"}
    assert set(found.signals[0].kinds) == {"symbol", "filler", "query"}
    assert found.signals[0].kinds["symbol"].steps == 20 * 4
    done = {(x.kind, x.gates) for x in found.interventions}
    names = ("all", "input gate", "forget gate")
    assert done == {(k, n) for k in ("clamp", "swap", "swap control") for n in names}
    for x in found.interventions:
        assert x.low <= x.change <= x.high
        assert x.figure == pytest.approx(found.figure + x.change)
    assert not found.nothing_to_steer
    trace = found.arrays["0.lstm/input gate/trace"]
    assert trace.shape == found.arrays["kinds"].shape == (4, 20)
    means = found.arrays["0.lstm/input gate/means"]
    symbol = found.signals[0].kinds["symbol"].mean
    assert means[SYMBOL].mean() == pytest.approx(symbol, rel=1e-5)
    assert np.isnan(means[DISTRACTOR]).all()
    assert found.arrays["0.lstm/input gate/counts"].sum() == 20 * 20 * means.shape[1]


@pytest.mark.parametrize("name", ["s4d", "retnet"])
def test_a_layer_that_cannot_choose_says_so(launcher: InProcess, name: str) -> None:
    found = probed(launcher, name)
    for signal in found.signals:
        assert signal.effect == Effect(0.0, 0.0, 0.0, 0.0, 0.0)
        assert signal.fixed
    assert found.interventions == ()
    assert "set by parameters alone" in found.nothing_to_steer
    shown = table(found)
    assert "0 by construction" in shown
    assert found.nothing_to_steer in shown


def test_attention_is_shown_by_kind_and_distance(launcher: InProcess) -> None:
    found = probed(launcher, "transformer")
    first = found.signals[0]
    assert sum(first.looks.values()) == pytest.approx(1.0, rel=1e-5)
    assert sum(first.evenly.values()) == pytest.approx(1.0, rel=1e-5)
    assert first.looks["symbol"] == pytest.approx(first.evenly["symbol"], abs=0.1)  # hardly trained
    distances = found.arrays["0/attention/distances"]
    np.testing.assert_allclose(distances.sum(axis=1), 1.0, rtol=1e-5)
    assert "no gate here writes or forgets" in found.nothing_to_steer


def test_another_evaluation_of_a_training_is_probed_on_its_own_data(launcher: InProcess) -> None:
    found = probed(launcher, "gru", task="gap_extrapolation")
    assert (found.task, found.split) == (get_task("gap_extrapolation").id, "test-gap10")
    assert set(found.signals[0].kinds) <= {"symbol", "noise", "end"}


def test_a_task_of_distributions_is_measured_in_its_own_unit(launcher: InProcess) -> None:
    found = probed(launcher, "gru", task="next_symbol")
    assert found.metric == "negative_kl"
    assert found.figure < 0
    assert all(math.isfinite(x.change) for x in found.interventions)


def test_the_figure_is_the_one_that_a_run_would_record(launcher: InProcess) -> None:
    """The whole split, from the same training."""
    from selectivbench.runner import run

    one = job("gru")
    (record,) = run(one, launcher, NullTracker(), lambda fit: fit())
    found = probe(one, launcher, NullTracker(), Wanted())
    assert found.figure == pytest.approx(record.evaluations[0].accuracy, abs=1e-9)
    kept = with_probe(record, found)
    again = Record.from_json(kept.to_json())
    back = Probe.from_record(again)
    assert back is not None
    assert back.to_data() == {**found.to_data(), "symbol_names": []}
    assert Probe.from_record(record) is None


def test_a_saved_model_is_not_trained_again(launcher: InProcess, tmp_path: Path) -> None:
    one, models = job("gru"), SavedModels(tmp_path)
    first = probe(one, launcher, NullTracker(), Wanted(20), models)
    assert models.has(one.identity(one.tasks[0]))
    follower = Follower()
    again = probe(one, launcher, follower, Wanted(20), models)
    assert again.to_data() == first.to_data()
    assert follower.steps == []
    probe(one, launcher, follower, Wanted(20))
    assert follower.steps


def test_the_training_of_a_probe_ends_where_a_run_would(
    launcher: InProcess, tmp_path: Path
) -> None:
    """It is kept under the same name, so it has to be the same training."""
    one, models, follower = job("gru"), SavedModels(tmp_path), Follower()
    early = EarlyStop(within=100.0, validations=1)
    stopped = replace(one, profile=replace(one.profile, early=early))
    probe(stopped, launcher, follower, Wanted(20), models)
    assert follower.steps == [1]
    assert models.has(stopped.identity(stopped.tasks[0]))


def test_what_was_noted_in_the_record_meanwhile_stays(
    launcher: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record.json"
    asked = Asked(
        FOLDER / "gru.py",
        "selective_copy",
        profile="smoke",
        steps=2,
        record=path,
        isolate="0",
        device="cpu",
    )
    one = job_of(asked)
    (record,) = run(one, launcher, NullTracker(), lambda fit: fit())
    path.write_text(record.to_json())
    found = probe(one, launcher, NullTracker(), Wanted())
    noted = replace(record, validity=(Finding("causality", True, "fine"),))

    def meanwhile(*_: Any) -> Probe:
        path.write_text(noted.to_json())
        return found

    monkeypatch.setattr(asking, "probe", meanwhile)
    asking.perform(asked)
    again = Record.from_json(path.read_text())
    assert again.validity == noted.validity
    assert again.probe


class Follower(NullTracker):
    """Notes the steps that it hears of."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def point(self, step: int, *_: Any) -> None:
        self.steps.append(step)


def test_a_record_of_another_model_is_left_alone(a_record: Record, launcher: InProcess) -> None:
    found = probed(launcher, "gru")
    with pytest.raises(RecordError, match="figure of the probed model"):
        with_probe(a_record, replace(found, figure=0.5))
    elsewhere = replace(a_record, evaluations=(Evaluation("other", 0.5, 0.1, 1.0),))
    with pytest.raises(RecordError, match="the record's own None"):
        with_probe(elsewhere, found)


def test_a_probe_survives_its_files(launcher: InProcess, tmp_path: Path) -> None:
    found = probed(launcher, "transformer")
    path = found.write(tmp_path)
    back = Probe.read(path)
    assert back.to_data() == found.to_data()
    assert set(back.arrays) == set(found.arrays)
    assert len(path.read_text()) < 12_000


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"signals": 3}'])
def test_what_is_no_probe_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "probe.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="probe"):
        Probe.read(path)


def test_figures_are_rounded_for_the_record() -> None:
    assert rounded({"a": [1 / 3, (2.0, 5)], "b": "1.23456789"}) == {
        "a": [0.333333, [2.0, 5]], "b": "1.23456789",
    }  # fmt: skip


def test_a_submission_without_known_layers_says_what_to_do(
    tmp_path: Path, launcher: InProcess
) -> None:
    source = """
import torch
from torch import nn
class Mixer(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.gate = nn.Linear(spec.d_model, 3)
    def forward(self, x):
        return x * self.gate(x).sigmoid().mean(-1, keepdim=True)
"""
    path = tmp_path / "mine.py"
    path.write_text(source)
    smoke = get_profile("smoke")
    mine = Job(load(path), (get_task("selective_copy"),), "base", smoke, 1, Device("cpu", "cpu"), 2)
    with pytest.raises(ChildFailed, match=r"define probe\(module, x\)"):
        probe(mine, launcher, NullTracker(), Wanted(8))
    path.write_text(
        source + "def probe(module, x):\n    return {'gate': module.gate(x).sigmoid()}\n"
    )
    found = probe(replace(mine, submission=load(path)), launcher, NullTracker(), Wanted(8))
    assert [(s.layer, s.name, s.role, s.channels) for s in found.signals] == [
        ("0", "gate", "own", 3),
        ("1", "gate", "own", 3),
    ]


@pytest.mark.parametrize("sequences", [0, -1, 65])
def test_sequences_that_there_are_not(launcher: InProcess, sequences: int) -> None:
    with pytest.raises(UsageError, match="1 to 64, the size of test"):
        probe(job("gru"), launcher, NullTracker(), Wanted(sequences))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a process of its own, at the level that a person gets."""
    model = str(FOLDER / "gru.py")
    given = ["probe", model, "--task", "selective_copy", "--profile", "smoke", "--steps", "2"]
    models = ["--models", str(tmp_path / "models")]
    places = ["--out", str(tmp_path), "--figures", str(tmp_path / "pictures")]
    assert main([*given, *models, *places, "--sequences", "8", "--clamp"]) == 0
    shown = capsys.readouterr().out
    assert "update gate" in shown
    assert "clamp" in shown
    assert "swap" not in shown
    (path,) = tmp_path.glob("*.json")
    assert json.loads(path.read_text())["entry"] == "gru"
    assert f"wrote {path}" in shown
    pictures = {each.stem.rpartition("-")[2] for each in (tmp_path / "pictures").glob("*.svg")}
    assert pictures == {"gates", "distributions", "channels"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--task", "selective_cpy"], "did you mean 'selective_copy'?"),
        (["--task", "selective_copy", "--variant", "bse"], "base"),
        (["--task", "selective_copy", "--record", "nothing.json"], "a record's JSON file"),
    ],
)
def test_a_bad_call_is_one_sentence(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probe", str(FOLDER / "gru.py"), "--profile", "smoke", *options]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert len(error.splitlines()) == 1


def test_a_record_of_another_training_is_refused(
    a_record: Record, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "record.json"
    path.write_text(a_record.to_json())
    given = ["probe", str(FOLDER / "gru.py"), "--task", "selective_copy", "--record", str(path)]
    assert main(given) == 2
    assert "differs in entry" in capsys.readouterr().err
