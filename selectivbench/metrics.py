"""Pure functions from logits to figures, and from figures to scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from selectivbench.batch import IGNORE
from selectivbench.errors import UsageError, explain

SMALLEST_RANGE = 0.2
"""A score is refused where ceiling - floor is smaller: the task could not tell models apart."""


def softmax(logits: NDArray[np.floating]) -> NDArray[np.float32]:
    """Over the last axis, float32."""
    with np.errstate(over="ignore"):  # of two huge logits: -inf, whose exponential is 0
        exp = np.exp(logits - logits.max(axis=-1, keepdims=True), dtype=np.float32)
    return np.asarray(exp / exp.sum(axis=-1, keepdims=True), dtype=np.float32)


def element_guesses(
    logits: NDArray[np.floating], targets: NDArray[np.integer], element: NDArray[np.integer]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(E,) class ids that were guessed and (E,) those asked, of the elements of one batch in order.

    An element is a run of steps with one ``element`` id; its guess is the argmax of the class
    probabilities summed over its steps (SelectivBench, section "metric"). Steps with id IGNORE are
    not scored. Unlike in the reference, an element without steps does not exist, so it cannot count
    as right, and logits must be finite (callers check with ``finite``).

    logits (B, T, C), targets (B, T), element (B, T).
    """
    scored = element != IGNORE
    if not scored.any():
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    rows = np.broadcast_to(np.arange(len(element))[:, None], element.shape)[scored]
    ids = element[scored]
    starts = np.flatnonzero(np.r_[True, (np.diff(rows) != 0) | (np.diff(ids) != 0)])
    sums = np.add.reduceat(softmax(logits[scored]), starts, axis=0)
    return sums.argmax(axis=1), targets[scored][starts].astype(np.int64)


def element_hits(
    logits: NDArray[np.floating], targets: NDArray[np.integer], element: NDArray[np.integer]
) -> tuple[int, int]:
    """(elements named rightly, elements) of one batch, by ``element_guesses``."""
    guesses, asked = element_guesses(logits, targets, element)
    return int((guesses == asked).sum()), len(asked)


def divergence(
    logits: NDArray[np.floating], exact: NDArray[np.floating], element: NDArray[np.integer]
) -> tuple[float, int]:
    """(sum of KL(exact || predicted) in nats, steps) over the scored steps of one batch.

    logits and exact (B, T, C), element (B, T): steps with id IGNORE are not scored.
    """
    scored = element != IGNORE
    p = exact[scored].astype(np.float64)
    x = logits[scored].astype(np.float64)
    log_q = x - x.max(axis=-1, keepdims=True)
    log_q -= np.log(np.exp(log_q).sum(axis=-1, keepdims=True))
    log_p = np.log(p, where=p > 0, out=np.zeros_like(p))
    return float((p * (log_p - log_q)).sum()), len(p)


def finite(logits: NDArray[np.floating]) -> bool:
    """Whether every logit is a number; one NaN would win or lose an argmax by accident."""
    return bool(np.isfinite(logits).all())


def score(accuracy: float, floor: float, ceiling: float) -> float:
    """Share of the way from floor to ceiling; not clipped.

    >>> score(0.75, floor=0.5, ceiling=1.0)
    0.5
    """
    if ceiling - floor < SMALLEST_RANGE:
        raise UsageError(
            explain("ceiling - floor", round(ceiling - floor, 4), f"{SMALLEST_RANGE} or more")
        )
    return (accuracy - floor) / (ceiling - floor)


def z_score(mean: float, bar: float, n: int, sigma: float) -> float:
    """How many standard errors the mean score of ``n`` seeds lies above the bar."""
    return (mean - bar) * float(np.sqrt(n)) / sigma
