"""Plain statistics of a signal, split by what each step is. Numbers in, numbers out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from selectivbench.seeds import Stream
from selectivbench.tasks.base import SYMBOL, TO_IGNORE

Floats: TypeAlias = NDArray[np.float64]

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
RESAMPLES = 2_000
ROUNDING = 1e-6
"""Relative to a signal's size: what differs by less is equal, but for the order of sums in float32."""


@dataclass(frozen=True)
class Summary:
    """A signal on one kind of step, over all steps and channels: number of steps, mean, standard
    deviation, and the quantiles of ``QUANTILES``."""

    steps: int
    mean: float
    sd: float
    quantiles: tuple[float, ...]


@dataclass(frozen=True)
class Effect:
    """How far apart a signal is on symbols and on steps to be ignored, in standard deviations.

    value: Cohen's d of the signal's mean over channels, (mean on symbols - mean on the others) over
    the pooled standard deviation; None where nothing varies within either kind but they differ.
    low, high: its 95 % interval, from a bootstrap over sequences.
    typical: the median over channels of each one's |d|, and higher: the share of channels whose mean
    is higher on symbols; channels of opposite sign cancel in ``value`` and show here.
    """

    value: float | None
    low: float | None
    high: float | None
    typical: float | None
    higher: float


def summary(values: NDArray[np.float32], where: NDArray[np.bool_]) -> Summary:
    """Of values (B, T, C) on the steps (B, T) of one kind, of which there is at least one."""
    taken = values[where].astype(np.float64)
    quantiles = np.quantile(taken, QUANTILES)
    sd = float(np.std(taken - taken.flat[0]))
    return Summary(len(taken), float(taken.mean()), sd, tuple(map(float, quantiles)))


def effect(values: NDArray[np.float32], kinds: NDArray[np.int8]) -> Effect | None:
    """Symbols against the steps to be ignored, of values (B, T, C); None where one kind is missing."""
    symbol, other = kinds == SYMBOL, np.isin(kinds, TO_IGNORE)
    if not symbol.any() or not other.any():
        return None
    series = values.mean(axis=2, dtype=np.float64)
    value = _difference(series, symbol, other)
    low, high = _interval(series, symbol, other) if value is not None else (None, None)
    channels = channel_effects(values, symbol, other)
    known = np.abs(channels[np.isfinite(channels)])
    typical = float(np.median(known)) if known.size else None
    first = values[symbol][0]  # a constant is exactly nothing when it is taken off
    above, below = ((values[kind] - first).mean(axis=0, dtype=float) for kind in (symbol, other))
    return Effect(value, low, high, typical, float((above > below).mean()))


def channel_effects(
    values: NDArray[np.float32], symbol: NDArray[np.bool_], other: NDArray[np.bool_]
) -> Floats:
    """(C,): each channel's d; NaN where it has none."""
    one, two = values[symbol].astype(np.float64), values[other].astype(np.float64)
    scale = np.maximum(np.abs(one).max(axis=0), np.abs(two).max(axis=0))
    freedom = max(1, len(one) + len(two) - 2)
    squares = ((one - one.mean(axis=0)) ** 2).sum(axis=0) + ((two - two.mean(axis=0)) ** 2).sum(0)
    return _ratio(one.mean(axis=0) - two.mean(axis=0), np.sqrt(squares / freedom), scale)


def _difference(
    series: Floats, symbol: NDArray[np.bool_], other: NDArray[np.bool_]
) -> float | None:
    """Cohen's d of (B, T), or None."""
    (value,) = channel_effects(series[..., None].astype(np.float64), symbol, other)
    return float(value) if np.isfinite(value) else None


def _ratio(difference: Floats, spread: Floats, scale: Floats) -> Floats:
    """difference / spread; 0 where neither is more than rounding, NaN where only the spread is none."""
    flat = spread <= ROUNDING * scale
    d = np.divide(difference, spread, out=np.full_like(spread, np.nan), where=~flat)
    return np.where(flat & (np.abs(difference) <= ROUNDING * scale), 0.0, d)


def _interval(
    series: Floats, symbol: NDArray[np.bool_], other: NDArray[np.bool_]
) -> tuple[float, float]:
    """2.5 % and 97.5 % of d when whole sequences are drawn again: steps of one are not independent."""
    shifted = series - series[symbol][0]
    sums = [_sums(shifted, kind) for kind in (symbol, other)]  # each (B, 3)
    weights = resampled(len(series))
    (n, s, q), (m, t, r) = ((weights @ part).T for part in sums)
    n, m = np.maximum(n, 1), np.maximum(m, 1)
    squares = (q - s**2 / n) + (r - t**2 / m)
    spread = np.sqrt(np.maximum(squares, 0) / np.maximum(n + m - 2, 1))
    d = _ratio(s / n - t / m, spread, np.full_like(spread, np.abs(series).max()))
    low, high = np.nanquantile(d, (0.025, 0.975))
    return float(low), float(high)


def _sums(series: Floats, kind: NDArray[np.bool_]) -> Floats:
    """(B, 3): steps, sum and sum of squares of one kind in each sequence."""
    taken = np.where(kind, series, 0.0)
    return np.stack([kind.sum(axis=1), taken.sum(axis=1), (taken**2).sum(axis=1)], axis=1)


def resampled(sequences: int) -> Floats:
    """(RESAMPLES, sequences): how often each is drawn, the same at every call."""
    rng = Stream.named("probe", "bootstrap").rng()
    return rng.multinomial(sequences, np.full(sequences, 1 / sequences), RESAMPLES).astype(float)
