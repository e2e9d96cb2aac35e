"""Results of a sweep as text: for a terminal, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from selectivbench.sweep.choice import Point
from selectivbench.sweep.results import Best, Plateau


def best_table(found: Sequence[Best]) -> str:
    """Mean test figure with its 95 % interval over the seeds, and where it was reached."""
    rows = [
        (best.submission, f"{best.axis}={best.value}", _interval(best), words(best.point))
        for best in found
    ]
    return aligned([("submission", "at", "test", "best by validation"), *rows])


def plateau_table(found: Sequence[Plateau]) -> str:
    """A line for each place: the figures, a sparkline, and how wide the best stretch is."""
    head = ("submission", "at", "learning rates", "", "validation", "within a standard error")
    rows = [
        (
            plateau.submission,
            words(plateau.place) or "-",
            " ".join(f"{rate:g}" for rate, _ in plateau.figures),
            plateau.spark,
            " ".join(f"{figure.value:.3f}" for _, figure in plateau.figures),
            " to ".join(f"{rate:g}" for rate in plateau.flat),
        )
        for plateau in found
    ]
    return aligned([head, *rows])


def plateau_csv(found: Iterable[Plateau]) -> str:
    """A line for each place and rate, to plot."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("submission", "at", "lr", "validation", "low", "high", "seeds"))
    for plateau in found:
        at = words(plateau.place)
        for rate, figure in plateau.figures:
            numbers = (rate, figure.value, figure.low, figure.high, figure.n)
            writer.writerow((plateau.submission, at, *numbers))
    return text.getvalue()


def aligned(rows: Sequence[tuple[str, ...]]) -> str:
    """Columns as wide as their widest word.

    >>> print(aligned([("a", "bb"), ("ccc", "d")]))
    a    bb
    ccc  d
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _interval(best: Best) -> str:
    half = f" ± {best.test.half:.3f}" if best.test.half is not None else ""
    return f"{best.test.value:.3f}{half} (n={best.test.n})"


def words(point: Point) -> str:
    """A point of the axes, in a few words."""
    return " ".join(f"{axis}={value}" for axis, value in point)
