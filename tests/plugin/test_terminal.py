"""The live line, and the pieces of the summary that have no run of their own."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from pytest_selectivbench.progress import Progress
from pytest_selectivbench.results import Row, lines
from pytest_selectivbench.summary import curves, reasons, table
from selectivbench.thresholds import bar_for
from selectivbench.tracking import Start


class Terminal(io.StringIO):
    def isatty(self):
        return True


COPY = bar_for("selective_copy-v1", "lite", "base")
BAR, SIGMA = COPY.bar, COPY.sigma

BASE = Row(
    entry="lstm",
    name="LSTM",
    task="selective_copy-v1",
    variant="base",
    profile="lite",
    seed=1,
    status="pass",
    cause="",
    accuracy=0.9,
    floor=0.125,
    ceiling=1.0,
    score=0.88,
    seconds=2.0,
    stem="x",
    verb="trained",
    reason="no record yet",
    expected_fail=False,
    splits={"test": 0.88},
)


def row(**changes):
    return replace(BASE, **changes)


@pytest.fixture
def start(a_record):
    return Start(a_record.identity, a_record.entry, (a_record.identity.task,), 1200, {}, "")


def test_the_live_line_shows_how_far_a_training_is(monkeypatch, start):
    monkeypatch.delenv("CI", raising=False)
    terminal = Terminal()
    line = Progress.on(terminal).follow(start)
    line.point(60, 1200, 1.234, 0.5)
    assert "selective_copy-v1[seed1] step 60/1200, loss 1.234, accuracy 0.500, 0 s left" in (
        terminal.getvalue()
    )
    line.end()
    assert terminal.getvalue().endswith("\033[K")


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal(), None])
def test_ci_and_files_stay_quiet(monkeypatch, stream, start):
    monkeypatch.setenv("CI", "true")
    line = Progress.on(stream).follow(start)
    line.point(1, 2, 1.0, None)
    line.end()
    assert stream is None or stream.getvalue() == ""


@pytest.mark.parametrize(
    ("scores", "statuses", "verdict"),
    [
        ((BAR + 0.05, BAR + 0.01), ("pass", "pass"), "pass"),
        ((BAR + 0.05, BAR - 0.01), ("pass", "fail"), "pass"),  # a task passes by its mean
        ((BAR + 0.05, BAR - 0.15), ("pass", "fail"), "fail"),
        ((BAR + 0.05, None), ("pass", "crash"), "crash"),
    ],
)
def test_the_verdict_of_a_task_is_that_of_its_mean(scores, statuses, verdict):
    rows = [
        row(seed=seed, score=score, status=status)
        for seed, (score, status) in enumerate(zip(scores, statuses, strict=True))
    ]
    (line,) = lines(rows)
    assert line.verdict == verdict


def test_z_is_in_standard_errors_of_the_seeds():
    (line,) = lines([row(seed=seed, score=BAR + 0.03) for seed in range(4)])
    assert line.z == pytest.approx(0.03 * 2 / SIGMA)


def test_missing_figures_are_dashes():
    text = "\n".join(table(lines([row(accuracy=None, score=None, status="oom")]), []))
    assert " oom " in text
    assert "nan" not in text
    assert "None" not in text


def test_several_splits_are_a_curve_with_the_longest_gap_that_is_held():
    bar = bar_for("gap_extrapolation-v2", "lite", "base").bar
    splits = {"test-gap10": bar + 0.3, "test-gap20": bar + 0.1, "test-gap50": bar - 0.1}
    rows = [row(task="gap_extrapolation-v2", seed=seed, splits=splits) for seed in (1, 2)]
    (said,) = curves(lines([*rows, row()]))
    assert said.endswith("; longest gap at the bar: 20")
    assert f"test-gap50 {bar - 0.1:.3f}" in said


def test_reasons_are_grouped():
    rows = [row(seed=seed) for seed in range(5)]
    assert reasons(lines(rows)) == [
        "trained 5 (no record yet): lstm selective_copy-v1 seed 0, lstm selective_copy-v1 seed 1, "
        "lstm selective_copy-v1 seed 2 and 2 more"
    ]
