"""The plateaus of a sweep as a figure: a panel for each place, a line for each submission."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from selectivbench.figures.lines import draw_lines
from selectivbench.figures.page import Look
from selectivbench.figures.series import Panel, Plot, Point, Series
from selectivbench.sweep.file import Sweep
from selectivbench.sweep.results import Plateau
from selectivbench.sweep.tables import words


def draw_plateaus(found: Sequence[Plateau], sweep: Sweep, out: Path) -> list[Path]:
    """Write ``plateaus.svg``, and its numbers as ``plateaus.csv``."""
    return list(draw_lines(plateau_plot(found, sweep), Look()).save(out, "plateaus", ("svg",)))


def plateau_plot(found: Sequence[Plateau], sweep: Sweep) -> Plot:
    """What the figure shows: validation figures, never those of the test set."""
    places = dict.fromkeys(words(plateau.place) or sweep.task for plateau in found)
    panels = tuple(
        Panel(
            place,
            tuple(_series(p) for p in found if (words(p.place) or sweep.task) == place),
        )
        for place in places
    )
    title = f"Choice of the learning rate, {sweep.task}, {sweep.profile}"
    return Plot(title, "learning rate", sweep.choice.by, panels, log=True)


def _series(plateau: Plateau) -> Series:
    pairs = zip(plateau.figures, plateau.of_seeds, strict=True)
    return Series(
        plateau.submission,
        tuple(Point(x, m.value, min(own), max(own), len(own)) for (x, m), own in pairs),
    )
