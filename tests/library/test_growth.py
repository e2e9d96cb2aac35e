"""Exponents: exact on powers, fitted on the top only, with intervals that tell noise."""

from __future__ import annotations

import numpy as np
import pytest

from selectivbench.growth import exponent

LENGTHS = (64, 128, 256, 512, 1024, 2048)


@pytest.mark.parametrize("power", [0.0, 1.0, 1.5, 2.0])
def test_a_power_is_found(power: float) -> None:
    found = exponent({T: [3e-6 * T**power] * 5 for T in LENGTHS})
    assert found is not None
    assert found.value == pytest.approx(power, abs=1e-5)
    assert found.low == pytest.approx(found.high, abs=1e-5)


def test_short_lengths_do_not_count() -> None:
    bent = {T: [1e-3 + 1e-9 * T**2] * 3 for T in (2, 4, 8)} | {
        4096: [1.0],
        8192: [4.0],
        16384: [16.0],
    }
    found = exponent(bent)
    assert found is not None
    assert found.value == pytest.approx(2.0)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    hits, wide = 0, 0.0
    for _ in range(60):
        rounds = {T: list(T * np.exp(rng.normal(0, 0.05, 9))) for T in LENGTHS}
        found = exponent(rounds)
        assert found is not None
        hits += found.low <= 1.0 <= found.high
        wide = max(wide, found.high - found.low)
    assert hits >= 48
    assert wide < 0.15


def test_what_cannot_be_fitted_has_none() -> None:
    assert exponent({64: [1.0]}) is None
    assert exponent({}) is None
    assert exponent({64: [0.0], 128: [1.0]}) is None
