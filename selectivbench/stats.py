"""Intervals and paired comparisons of few seeds; plain functions of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, sqrt

import numpy as np

T_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""97.5 % point of Student's t for 1 to 30 degrees of freedom."""
NORMAL_975 = 1.960
MOST_FLIPS = 16
"""Pairs up to which every sign pattern is counted (2**16 of them)."""


@dataclass(frozen=True, slots=True)
class Mean:
    """Mean of n numbers with the half width of its 95 % interval (None for a single number)."""

    value: float
    half: float | None
    n: int
    error: float = 0.0
    """Standard error of the mean."""

    @property
    def low(self) -> float:
        return self.value - (self.half or 0.0)

    @property
    def high(self) -> float:
        return self.value + (self.half or 0.0)


def t_point(freedom: float) -> float:
    """97.5 % point of Student's t; fractions of a degree are rounded down, which widens.

    >>> t_point(2.9), t_point(1000)
    (4.303, 1.96)
    """
    whole = max(1, int(freedom))
    return T_975[whole - 1] if whole <= len(T_975) else NORMAL_975


def mean(values: Sequence[float]) -> Mean:
    """Mean and 95 % t interval.

    >>> m = mean([0.8, 0.9, 1.0])
    >>> round(m.value, 3), round(m.half, 3)
    (0.9, 0.248)
    """
    n = len(values)
    middle = fsum(values) / n
    if n < 2:
        return Mean(middle, None, n)
    error = sqrt(fsum((v - middle) ** 2 for v in values) / (n - 1) / n)
    return Mean(middle, t_point(n - 1) * error, n, error)


def mean_of_means(parts: Sequence[Mean], weights: Sequence[float]) -> Mean:
    """Weighted mean of independent means; Welch-Satterthwaite degrees of freedom."""
    shares = [weight / fsum(weights) for weight in weights]
    value = fsum(share * p.value for share, p in zip(shares, parts, strict=True))
    n = min(p.n for p in parts)
    if n < 2:
        return Mean(value, None, n)
    variances = [(share * p.error) ** 2 for share, p in zip(shares, parts, strict=True)]
    total = fsum(variances)
    spread = fsum(v**2 / (p.n - 1) for v, p in zip(variances, parts, strict=True))
    freedom = total**2 / spread if spread else 1e9
    error = sqrt(total)
    return Mean(value, t_point(freedom) * error, n, error)


def sign_flip(differences: Sequence[float]) -> float | None:
    """Exact two-sided p of paired differences, were their signs coin flips; None beyond MOST_FLIPS.

    >>> sign_flip([0.1, 0.2, 0.3])
    0.25
    """
    n = len(differences)
    if not 0 < n <= MOST_FLIPS:
        return None
    bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    sums = np.abs((1 - 2 * bits) @ np.asarray(differences, dtype=float))
    return float(np.mean(sums >= abs(fsum(differences)) - 1e-12))
