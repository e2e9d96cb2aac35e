"""Pictures of a case's gates, for its W&B run. Drawn by ``figures``, so with the extra of that name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from selectivbench.figures.mechanism import draw_probe, draw_ranges
from selectivbench.figures.page import Drawn, Look
from selectivbench.record import Record
from selectivbench.tracking.gates import Gates

LOOK = Look(width=8.0)
SHOWN = ("gates",)


def pictures_of(record: Record, folder: Path) -> Mapping[str, Drawn]:
    """By name: of the model as it was heard (a file in ``folder``), and of the probe in the record.

    Nothing where there is neither. UsageError where there is, and matplotlib is not.
    """
    identity = record.identity
    title = f"{identity.entry} on {identity.task}, seed {identity.seed}"
    heard = Gates.read(Gates.path(folder, identity.stem))
    drawn: dict[str, Drawn] = {}
    if heard is not None:
        drawn |= draw_probe(title, heard.arrays, heard.kinds, heard.symbols, LOOK, SHOWN)
    if record.probe is not None:
        drawn["ranges"] = draw_ranges(title, record.probe["signals"], LOOK)
    return drawn
