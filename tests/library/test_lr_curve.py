"""Accuracy against learning rate, on validation data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from selectivbench import cli, lr_curve
from selectivbench.custom import Place, Training
from selectivbench.errors import RecordError, UsageError
from selectivbench.lr_curve import Curve, Question, Rung
from selectivbench.machine import Device
from selectivbench.record import Point, Record
from selectivbench.sandbox.launchers import Launchers
from selectivbench.sandbox.levels import Isolation

LSTM = Path("submissions/lstm.py")


def curve(*means: float, default: float = 1e-2, entry: str = "a") -> Curve:
    rungs = tuple(Rung(lr, {"1": m}) for lr, m in zip(lr_curve.RATES, means, strict=True))
    return Curve(entry, "mqar-v1", "base", "lite", default, rungs)


def test_the_plateau_is_what_is_nearly_as_good_as_the_best() -> None:
    found = curve(0.5, 0.885, 0.9, 0.2)
    assert found.best.lr == 1e-2
    assert found.plateau == (3e-3, 1e-2)
    assert found.inside
    assert not curve(0.5, 0.885, 0.9, 0.2, default=3e-2).inside


def test_the_table_says_where_the_default_is() -> None:
    text = lr_curve.table(curve(0.5, 0.885, 0.9, 0.2))
    assert " 1.0e-02   0.900  0.900  * default" in text
    assert " 1.0e-03   0.500  0.500  \n" in text + "\n"
    assert "default rate 0.01 is inside the plateau" in text
    outside = lr_curve.table(curve(0.5, 0.885, 0.9, 0.2, default=3e-2))
    assert "default rate 0.03 is OUTSIDE the plateau" in outside


def test_a_file_keeps_one_curve_of_each_case(tmp_path: Path) -> None:
    path = tmp_path / "curves.json"
    for each in (curve(0, 0, 0, 1), curve(0, 0, 1, 0, entry="b"), curve(1, 0, 0, 0)):
        lr_curve.write(each, path)
    assert lr_curve.read(path) == (curve(1, 0, 0, 0), curve(0, 0, 1, 0, entry="b"))


@pytest.mark.parametrize("text", ["{", '[{"entry": "a"}]', "[1]"])
def test_a_file_of_something_else(tmp_path: Path, text: str) -> None:
    path = tmp_path / "curves.json"
    path.write_text(text)
    with pytest.raises(RecordError, match="not a"):
        lr_curve.read(path)


def test_every_rate_and_seed_is_trained_and_only_validation_counts(
    monkeypatch: pytest.MonkeyPatch, a_record: Record, tmp_path: Path
) -> None:
    asked: list[tuple[float, int]] = []

    def trained(training: Training, place: Place, **_: object) -> Record:
        assert place.out == tmp_path
        asked.append((float(training.sizes["lr"]), training.seed))
        points: Sequence[Point] = (
            Point(1, 2.0, 0.1),
            Point(2, 1.0, 0.2 * training.seed),
            Point(3, 1.0),
        )
        return replace(a_record, curve=tuple(points), accuracy=0.999)

    monkeypatch.setattr(lr_curve, "run_training", trained)
    question = Question(LSTM, "distractors", None, "lite", (3e-3, 1e-3), (1, 2))
    found = lr_curve.measure(question, Place(out=tmp_path))
    assert asked == [(lr, seed) for lr in (1e-3, 3e-3, 1e-2) for seed in (1, 2)]
    assert found.default == 1e-2
    assert (found.task, found.variant) == ("distractors-v1", "dense")
    assert [round(rung.mean, 6) for rung in found.rungs] == [0.3, 0.3, 0.3]


def test_a_training_that_failed_has_learnt_nothing(
    monkeypatch: pytest.MonkeyPatch, a_record: Record, tmp_path: Path
) -> None:
    monkeypatch.setattr(lr_curve, "run_training", lambda *_, **__: replace(a_record, curve=()))
    question = Question(LSTM, "distractors", None, "lite", (1e-3, 3e-3), (1,))
    assert lr_curve.measure(question, Place(out=tmp_path)).best.mean == 0


def test_two_rates_or_more() -> None:
    with pytest.raises(UsageError, match="two different rates or more"):
        Question(LSTM, "distractors", None, "lite", (1e-3, 1e-3), (1,))
    with pytest.raises(UsageError, match="one seed or more"):
        Question(LSTM, "distractors", None, "lite", (1e-3, 3e-3), ())


def test_failures_cannot_be_the_best_divergence() -> None:
    with pytest.raises(UsageError, match="next_symbol, scored by negative_kl"):
        Question(LSTM, "next_symbol", None, "lite", (1e-3, 3e-3), (1,))


def test_launchers_are_of_the_device_that_is_trained_on(
    monkeypatch: pytest.MonkeyPatch, a_record: Record, tmp_path: Path
) -> None:
    kinds: list[str] = []

    class Noted(Launchers):
        def __init__(self, kind: str, isolation: Isolation) -> None:
            super().__init__(kind, isolation)
            kinds.append(kind)

    monkeypatch.setattr(lr_curve, "Launchers", Noted)
    monkeypatch.setattr(lr_curve, "resolve", lambda _: Device("cuda", "H200"))
    monkeypatch.setattr(lr_curve, "run_training", lambda *_, **__: a_record)
    question = Question(LSTM, "distractors", None, "lite", (1e-3, 3e-3), (1,))
    lr_curve.measure(question, Place(out=tmp_path))
    assert kinds == ["cuda"]


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Really trained, and a second call takes the records."""
    path = tmp_path / "curves.json"
    words = ["lr-curve", str(LSTM), "--task", "selective_copy", "--profile", "smoke"]
    words += ["--rates", "1e-3,1e-2", "--out", str(tmp_path / "out"), "--write", str(path)]
    assert cli.main(words) == 0
    first = capsys.readouterr().out
    assert "lstm on selective_copy-v1 base (smoke)" in first
    made = {file: file.stat().st_mtime_ns for file in (tmp_path / "out").glob("*.json")}
    assert len(made) == 2
    assert cli.main(words) == 0
    assert capsys.readouterr().out == first
    assert {f: f.stat().st_mtime_ns for f in (tmp_path / "out").glob("*.json")} == made
    assert [rung.lr for rung in lr_curve.read(path)[0].rungs] == [1e-3, 1e-2]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--rates fast", "--rates: got 'fast', allowed: numbers with commas, such as 1e-3,3e-3"),
        ("--seeds 1.5", "--seeds: got '1.5', allowed: whole numbers with commas"),
        ("--seeds one", "--seeds: got 'one'"),
        ("--steps 9 --write curves.json", "--write: got 'a curve of --steps'"),
    ],
)
def test_a_bad_call_is_one_sentence(
    capsys: pytest.CaptureFixture[str], words: str, told: str
) -> None:
    assert cli.main(["lr-curve", str(LSTM), "--task", "mqar", *words.split()]) == 2
    assert told in capsys.readouterr().err
