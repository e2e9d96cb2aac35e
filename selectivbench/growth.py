"""How cost grows with length: exponents from timings, with their intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from selectivbench.seeds import Stream
from selectivbench.times import WHAT, Timing

TOP = 3
"""The longest lengths that an exponent is fitted on, where the kernel weighs most."""
RESAMPLES, INSIDE = 2_000, 95.0


@dataclass(frozen=True)
class Exponent:
    """A cost that grows as T ** value; low and high: its interval by resampling the rounds."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True)
class Growth:
    """How the cost of one sequence, or of one decoded step, grows with the length.

    memory: at the peak; None for decoding, whose peak is that of reading what came before.
    lengths: those that the exponents were fitted on.
    """

    entry: str
    what: str
    time: Exponent
    memory: Exponent | None
    lengths: tuple[int, ...]


def growths(timings: Iterable[Timing]) -> tuple[Growth, ...]:
    """One for each workload of an entry that has two lengths or more, in a fixed order.

    Costs are of one sequence, so that 1 is linear and 2 is quadratic; a decoded step is 0 where the
    state does not grow.
    """
    ordered = sorted(timings, key=lambda t: (t.entry, WHAT.index(t.what), t.length))
    found = []
    for (entry, what), group in groupby(ordered, key=lambda t: (t.entry, t.what)):
        some = list(group)
        time = exponent({t.length: [s / t.batch for s in t.own.busy] for t in some})
        if time is None:
            continue
        known = {t.length: [t.own.memory / t.batch] for t in some if t.own.memory}
        memory = None if what == "decode" else exponent(known)
        found.append(Growth(entry, what, time, memory, tuple(t.length for t in some[-TOP:])))
    return tuple(found)


def exponent(rounds: Mapping[int, Sequence[float]], top: int = TOP) -> Exponent | None:
    """The slope of log cost against log length over the ``top`` longest lengths; None below two.

    rounds: cost of one sequence in each round, by length; costs must be positive. The interval
    (95 %) is the percentile bootstrap over rounds, each length's on its own: it covers noise, not
    the bend of a cost that is a sum of powers.

    >>> exponent({64: [1.0, 1.0], 128: [4.0, 4.0], 256: [16.0, 16.0]})
    Exponent(value=2.0, low=2.0, high=2.0)
    """
    lengths = sorted(rounds)[-top:]
    if len(lengths) < 2 or min(min(rounds[length]) for length in lengths) <= 0:
        return None
    rng = Stream.named("growth").rng(0)
    costs = [np.asarray(rounds[length], dtype=np.float64) for length in lengths]
    drawn = [
        np.median(cost[rng.integers(len(cost), size=(RESAMPLES, len(cost)))], axis=1)
        for cost in costs
    ]
    low, high = np.percentile(_slopes(lengths, np.stack(drawn)), [50 - INSIDE / 2, 50 + INSIDE / 2])
    (value,) = _slopes(lengths, np.array([[np.median(cost)] for cost in costs]))
    return Exponent(*(round(float(number), 6) for number in (value, low, high)))


def _slopes(lengths: Sequence[int], costs: np.ndarray) -> np.ndarray:
    """(n,) least-squares slopes of costs (lengths, n)."""
    x = np.log(np.asarray(lengths, dtype=np.float64))
    x -= x.mean()
    return np.asarray(x @ np.log(costs) / (x @ x))
