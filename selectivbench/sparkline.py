"""A curve in one line of text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

LEVELS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int = 20) -> str:
    """At most ``width`` bars, from the lowest value to the highest; each is the mean of its share.

    >>> sparkline([2.0, 1.5, 1.0, 0.6, 0.5])
    '█▆▃▁▁'
    >>> sparkline([1.0, 1.0])
    '▁▁'
    >>> sparkline(range(100), width=5)
    '▁▃▅▆█'
    """
    shares = _shares(values, width)
    if not shares:
        return ""
    low, span = min(shares), max(shares) - min(shares)
    top = len(LEVELS) - 1
    return "".join(LEVELS[round((v - low) / span * top) if span else 0] for v in shares)


def _shares(values: Sequence[float], width: int) -> list[float]:
    """The values themselves where they fit, else the means of ``width`` consecutive parts."""
    if len(values) <= width:
        return [float(value) for value in values]
    edges = [len(values) * i // width for i in range(width + 1)]
    parts = [values[a:b] for a, b in pairwise(edges)]
    return [sum(part) / len(part) for part in parts]
