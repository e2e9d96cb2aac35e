"""Element accuracy against a slow reading of its definition, and the score."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selectivbench.batch import IGNORE
from selectivbench.errors import UsageError
from selectivbench.metrics import element_hits, finite, score, softmax, z_score

CLASSES = 3


def slowly(logits: np.ndarray, targets: np.ndarray, element: np.ndarray) -> tuple[int, int]:
    """One element at a time, one step at a time, in Python's own floats."""
    hits = elements = 0
    for row in range(len(element)):
        for name in sorted(set(element[row].tolist()) - {IGNORE}):
            steps = [t for t in range(element.shape[1]) if element[row, t] == name]
            total = [0.0] * logits.shape[2]
            for t in steps:
                exp = [math.exp(float(x) - float(max(logits[row, t]))) for x in logits[row, t]]
                total = [a + b / sum(exp) for a, b in zip(total, exp, strict=True)]
            hits += total.index(max(total)) == targets[row, steps[0]]
            elements += 1
    return hits, elements


@st.composite
def batches(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Elements of 1 to 3 steps, some steps between them unscored, a padded tail."""
    rows, steps = draw(st.integers(1, 3)), draw(st.integers(1, 9))
    element = np.full((rows, steps), IGNORE, np.int32)
    for row in range(rows):
        lengths = draw(st.lists(st.integers(0, 3), max_size=4))
        runs = [i for i, length in enumerate(lengths) for _ in range(length)][:steps]
        gaps = draw(st.lists(st.booleans(), min_size=steps, max_size=steps))
        line = [IGNORE if gap else run for gap, run in zip(gaps, runs, strict=False)]
        element[row, : len(line)] = line
    targets = np.zeros((rows, steps), np.int32)
    for row in range(rows):
        classes = draw(st.lists(st.integers(0, CLASSES - 1), min_size=9, max_size=9))
        targets[row] = [classes[e] if e != IGNORE else IGNORE for e in element[row]]
    seed = draw(st.integers(0, 2**32 - 1))
    logits = np.random.default_rng(seed).normal(0, 3, (rows, steps, CLASSES)).astype(np.float32)
    return logits, targets, element


@given(batches())
@settings(deadline=None, max_examples=150)
def test_hits_agree_with_the_slow_definition(
    batch: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    assert element_hits(*batch) == slowly(*batch)


def certain(*classes: int) -> np.ndarray:
    return np.eye(CLASSES, dtype=np.float32)[list(classes)][None] * 9


@pytest.mark.parametrize(
    ("said", "targets", "element", "hits"),
    [
        # the same id in two sequences, or two ids side by side, are two elements
        ([0, 1], [0, 0], [0, 1], (1, 2)),
        # one element: two of its three steps outvote the last
        ([1, 1, 0], [1, 1, 1], [0, 0, 0], (1, 1)),
        ([1, 0, 0], [1, 1, 1], [0, 0, 0], (0, 1)),
        # nothing to score: an empty element is no element, so it cannot count as right
        ([0, 0], [0, 0], [IGNORE, IGNORE], (0, 0)),
        ([0, 0], [0, 0], [5, IGNORE], (1, 1)),
    ],
)
def test_hits_by_hand(
    said: list[int], targets: list[int], element: list[int], hits: tuple[int, int]
) -> None:
    assert element_hits(certain(*said), np.array([targets]), np.array([element])) == hits


def test_one_id_in_two_sequences_is_two_elements() -> None:
    logits = np.concatenate([certain(0), certain(1)])
    assert element_hits(logits, np.array([[0], [0]]), np.array([[4], [4]])) == (1, 2)


def test_probabilities_are_summed_and_not_votes_or_logits() -> None:
    # one certain step outweighs two lukewarm ones: 1.0 + 2 * 0.45 against 2 * 0.55
    logits = np.log(np.array([[[0.998, 0.001, 0.001], [0.45, 0.549, 0.001], [0.45, 0.549, 0.001]]]))
    assert element_hits(logits, np.zeros((1, 3), int), np.zeros((1, 3), int)) == (1, 1)
    # a logit sum would follow the very negative entry, a probability sum does not
    logits = np.array([[[0.0, -1000.0, -2000.0], [0.0, 5.0, -9.0], [0.0, 5.0, -9.0]]])
    assert element_hits(logits, np.ones((1, 3), int), np.zeros((1, 3), int)) == (1, 1)


def test_softmax_survives_the_largest_logits() -> None:
    logits = np.array([[3e38, -3e38, 0.0], [-3e38, -3e38, -3e38]], dtype=np.float32)
    assert softmax(logits).tolist() == [[1, 0, 0], pytest.approx([1 / 3] * 3)]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_bad_logit_is_not_finite(bad: float) -> None:
    logits = np.zeros((2, 3, 4), np.float32)
    assert finite(logits)
    logits[1, 2, 3] = bad
    assert not finite(logits)


@given(st.floats(0, 1), st.floats(0, 0.7))
def test_the_score_is_zero_at_the_floor_and_one_at_the_ceiling(share: float, floor: float) -> None:
    ceiling = floor + 0.3
    assert score(floor + share * 0.3, floor, ceiling) == pytest.approx(share)


@pytest.mark.parametrize(("accuracy", "expected"), [(0.25, -0.5), (1.25, 1.5)])
def test_the_score_is_not_clipped(accuracy: float, expected: float) -> None:
    assert score(accuracy, 0.5, 1.0) == expected


@pytest.mark.parametrize(("floor", "ceiling"), [(0.5, 0.699), (0.5, 0.5), (0.9, 0.1)])
def test_a_small_range_is_refused(floor: float, ceiling: float) -> None:
    with pytest.raises(UsageError, match=r"ceiling - floor: got .*allowed: 0\.2 or more"):
        score(0.6, floor, ceiling)


@pytest.mark.parametrize(
    ("mean", "n", "z"), [(0.9, 1, 2.0), (0.9, 4, 4.0), (0.8, 9, 0.0), (0.75, 4, -2.0)]
)
def test_z_counts_standard_errors_above_the_bar(mean: float, n: int, z: float) -> None:
    assert z_score(mean, bar=0.8, n=n, sigma=0.05) == pytest.approx(z)
