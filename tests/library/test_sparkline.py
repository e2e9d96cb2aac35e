"""One line for a curve."""

from __future__ import annotations

import pytest

from selectivbench.sparkline import LEVELS, sparkline


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([], ""),
        ([3.0], "▁"),
        ([0.0, 1.0], "▁█"),
        ([1.0, 0.0, 1.0], "█▁█"),
        ([5.0, 5.0, 5.0], "▁▁▁"),
        (range(8), LEVELS),
        (range(16), "▁▁▂▂▃▃▄▄▅▅▆▆▇▇██"),
    ],
)
def test_the_lowest_and_the_highest_value_span_the_bars(values, drawn):
    assert sparkline(values) == drawn


def test_a_long_curve_keeps_its_shape_in_its_width():
    falling = [1 / (step + 1) for step in range(997)]
    drawn = sparkline(falling, width=12)
    assert len(drawn) == 12
    assert list(drawn) == sorted(drawn, reverse=True)
    assert drawn[0] == LEVELS[-1]
