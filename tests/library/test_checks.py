"""Checks on functions that predict: honest ones hold, and each kind of cheat is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from selectivbench import checks
from selectivbench.batch import BLANK, IGNORE, PAD, Batch
from selectivbench.checks import Logits, Predict
from selectivbench.similarity import similar

TOKENS = np.array(
    [[0, BLANK, BLANK, 1, 2, BLANK, 3, 0], [1, 2, BLANK, 0, BLANK, 3, PAD, PAD]], np.int16
)
MANY = np.vstack([TOKENS, np.random.default_rng(3).integers(BLANK, 4, (6, 8)).astype(np.int16)])
BATCH = Batch(
    MANY,
    np.maximum(MANY, IGNORE).astype(np.int32),
    np.zeros((8, 8), np.int32),
    np.arange(8, dtype=np.uint64),
)


def causal(batch: Batch) -> Logits:
    """A running sum of the tokens: every step knows all before it."""
    values = np.cumsum(batch.tokens.astype(np.float32), axis=1)
    return np.stack([values, -values, values * 0.5], axis=-1)


def peeking(steps: int, of: float = 1.0) -> Predict:
    def predict(batch: Batch) -> Logits:
        later = np.roll(batch.tokens, -steps, axis=1).astype(np.float32)
        return causal(batch) + of * later[..., None]

    return predict


def whole(batch: Batch) -> Logits:
    return causal(batch) + batch.tokens.sum(axis=1)[:, None, None].astype(np.float32)


def in_a_gap(batch: Batch) -> Logits:
    """Knows in a gap what comes after it, and nothing elsewhere."""
    later = np.roll(batch.tokens, -1, axis=1)
    gap = (batch.tokens == BLANK)[..., None]
    return causal(batch) + (gap * later[..., None]).astype(np.float32)


def nan_late(batch: Batch) -> Logits:
    logits = causal(batch)
    logits[batch.tokens[:, -1] == 1] = np.nan
    return logits


def mean_of_batch(batch: Batch) -> Logits:
    return causal(batch) - causal(batch).mean(axis=0)


def by_place(batch: Batch) -> Logits:
    return causal(batch) + np.arange(len(batch.tokens), dtype=np.float32)[:, None, None]


def by_size(batch: Batch) -> Logits:
    return causal(batch) * np.float32(len(batch.tokens))


@pytest.mark.parametrize(
    ("predict", "ok"),
    [
        (causal, True),
        (mean_of_batch, True),
        (peeking(1, of=1e-6), True),
        (peeking(1), False),
        (peeking(3), False),
        (peeking(1, of=0.01), False),
        (whole, False),
        (in_a_gap, False),
        (nan_late, False),
    ],
)
def test_causality(predict: Predict, ok: bool) -> None:
    finding = checks.causality(predict, BATCH)
    assert finding.ok is ok
    assert finding.check == "causality"
    assert "allowed: 0.0001" in finding.text


def test_causality_at_the_cuts_that_are_asked_for() -> None:
    first = checks.taken(BATCH, np.arange(2))  # no gap before step 1, one before step 3
    assert checks.causality(in_a_gap, first, cuts=[1]).ok
    assert not checks.causality(in_a_gap, first, cuts=[3]).ok


def test_cuts_are_spread_and_lie_at_the_edges_of_gaps() -> None:
    assert checks.cut_points(TOKENS[:1]) == {1, 3, 4, 5, 6}
    assert checks.cut_points(np.zeros((2, 10), np.int16)) == {2, 4, 6, 8}
    assert checks.cut_points(np.zeros((2, 1), np.int16)) == set()


def test_what_is_changed_is_changed_everywhere_and_padding_stays() -> None:
    changed = checks.changed_from(BATCH, 3)
    assert (changed.tokens[:, :3] == BATCH.tokens[:, :3]).all()
    late, before = changed.tokens[:, 3:], BATCH.tokens[:, 3:]
    assert ((late != before) == (before != PAD)).all()
    assert set(np.unique(changed.tokens)) <= set(np.unique(BATCH.tokens))


@pytest.mark.parametrize(
    ("predict", "ok"),
    [
        (causal, True),
        (peeking(1), True),
        (whole, True),
        (mean_of_batch, False),
        (by_place, False),
        (by_size, False),
    ],
)
def test_batch_independence(predict: Predict, ok: bool) -> None:
    assert checks.batch_independence(predict, BATCH).ok is ok


@pytest.mark.parametrize(
    ("change", "tolerance", "ok"),
    [(0.0, 0.0, True), (1e-7, 0.0, False), (1e-7, 1e-4, True), (np.nan, 1e-4, False)],
)
def test_determinism(change: float, tolerance: float, ok: bool) -> None:
    first = np.full((2, 3, 4), 0.5, np.float32)
    second = (first + np.float32(change)).astype(np.float32)
    assert checks.determinism(first, second, tolerance).ok is ok


@pytest.mark.parametrize(
    ("accuracy", "elements", "ok"),
    [(0.25, 100, True), (0.42, 100, True), (0.43, 100, False), (0.27, 100_000, False)],
)
def test_shuffled_labels(accuracy: float, elements: int, ok: bool) -> None:
    assert checks.shuffled_labels(accuracy, 0.25, elements).ok is ok


def test_shuffling_keeps_every_target_and_tells_nothing() -> None:
    shuffled = checks.with_shuffled_labels(BATCH, 1)
    assert (shuffled.tokens == BATCH.tokens).all()
    assert ((shuffled.targets == IGNORE) == (BATCH.targets == IGNORE)).all()
    assert sorted(shuffled.targets.flat) == sorted(BATCH.targets.flat)
    assert (shuffled.targets != BATCH.targets).any()
    assert (shuffled.targets != checks.with_shuffled_labels(BATCH, 2).targets).any()


@pytest.mark.parametrize(
    ("parameters", "saved", "ok"),
    [(10_000, 10_000, True), (10_000, 19_096, True), (10_000, 19_097, False), (1, 10_000, False)],
)
def test_hidden_numbers(parameters: int, saved: int, ok: bool) -> None:
    assert checks.hidden_numbers(parameters, saved).ok is ok


def test_embedded_weights() -> None:
    noise = np.random.default_rng(0).integers(0, 1 << 62, 4_000)
    assert not checks.embedded_weights(f"WEIGHTS = {noise.tolist()}").ok
    assert checks.embedded_weights(f"WEIGHTS = {[0] * 60_000}").ok


SUBMISSIONS = sorted((Path(__file__).parents[2] / "submissions").glob("*.py"))


@pytest.mark.parametrize("path", SUBMISSIONS, ids=lambda path: path.stem)
def test_no_entry_of_ours_carries_weights(path: Path) -> None:
    assert checks.embedded_weights(path.read_text()).ok


@pytest.mark.parametrize(("size", "ok"), [(0, True), (6_400, True), (6_401, False), (None, True)])
def test_state_bound(size: int | None, ok: bool) -> None:
    assert checks.state_bound(size, d_model=32, max_length=100).ok is ok


def test_a_copy_is_reported_whatever_its_names() -> None:
    original = SUBMISSIONS[0].read_text()
    copy = original.replace("self", "this").replace("spec", "s").replace('"""', "'''")
    others = {path.stem: path.read_text() for path in SUBMISSIONS[1:]}
    ((name, ratio), *more) = similar(copy, others | {"original": original})
    assert (name, ratio) == ("original", 1.0)
    assert all(ratio < 1 for _, ratio in more)
    assert similar("class Mixer(:", {"other": original}) == ()
    assert similar(original, {"empty": "", "broken": "class (:"}) == ()


def test_similarity_is_reported_and_never_a_failure() -> None:
    original = SUBMISSIONS[0].read_text()
    others = {f"copy{number}": original for number in range(5)}
    finding = checks.similarity(original, others)
    assert finding.ok
    assert "copy0 1.00, copy1 1.00, copy2 1.00 and 2 more, of 5 compared" in finding.text
    assert checks.similarity(original, {"other": "x = 1"}).text == "like no other, of 1 compared"


class Scripted:
    """A child as ``trained_state`` sees it."""

    def __init__(self, parameters: int, numbers: int) -> None:
        self.built: Any = type("Built", (), {"parameters": parameters})
        self.state: Callable[[], Any] = lambda: type("State", (), {"numbers": numbers})


def test_a_state_that_hides_numbers_is_invalid() -> None:
    assert checks.trained_state(Scripted(100, 200)).numbers == 200  # type: ignore[arg-type]
    with pytest.raises(checks.ProtocolError, match=r"hidden-numbers: .*1000000 numbers for 100"):
        checks.trained_state(Scripted(100, 1_000_000))  # type: ignore[arg-type]
