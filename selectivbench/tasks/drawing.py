"""One sample as lines of text: which element, what the step shows, what is asked."""

from __future__ import annotations

import numpy as np

from selectivbench.batch import BLANK, IGNORE, PAD
from selectivbench.tasks.base import Dataset


def cells(dataset: Dataset, split: str, index: int) -> list[tuple[str, str, str]]:
    """(element, step, target) of each step of one sample, as text.

    A blank is ``.``; a distractor, which is a symbol in the gap of an element, stands in brackets.
    """
    batch = dataset.batch(split, [index])
    tokens, targets, element = batch.tokens[0], batch.targets[0], batch.element[0]
    first = np.append(True, element[1:] != element[:-1]) | (element == IGNORE)
    return [
        (
            _name((), int(element[t])),
            _symbol(dataset, int(tokens[t]), bool(first[t])),
            _name(dataset.class_names, int(targets[t])),
        )
        for t in np.flatnonzero(tokens != PAD)
    ]


def draw(dataset: Dataset, split: str = "train", index: int = 0, steps: int = 20) -> str:
    """The first steps of one sample in three aligned lines."""
    shown = cells(dataset, split, index)[:steps]
    lines = []
    for row, name in enumerate(("element", "step", "target")):
        padded = [cell[row].ljust(max(map(len, cell))) for cell in shown]
        lines.append(f"{name:<9}{' '.join(padded)}".rstrip())
    return "\n".join(lines)


def _symbol(dataset: Dataset, token: int, grammatical: bool) -> str:
    if token == BLANK:
        return "."
    name = _name(dataset.symbol_names, token)
    return name if grammatical else f"({name})"


def _name(names: tuple[str, ...], number: int) -> str:
    if number == IGNORE:
        return "-"
    return names[number] if names else str(number)
