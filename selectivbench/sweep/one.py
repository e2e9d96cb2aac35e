"""One cell of a sweep, found by its words: what a W&B agent runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from selectivbench.errors import UsageError, explain, near
from selectivbench.sweep.file import Sweep
from selectivbench.sweep.grid import Cell, cells
from selectivbench.sweep.wandb_export import DRAW


def find_cell(sweep: Sweep, words: Sequence[str]) -> Cell:
    """The cell of ``--submission=gla --lr=0.001 --seed=3``; UsageError where there is not just one."""
    given = _given(sweep, words)
    found = list(islice((cell for cell in cells(sweep) if _fits(cell, given)), 2))
    if len(found) != 1:
        got = f"{' '.join(words) or 'nothing'}, which {'none' if not found else 'several'} fit"
        remedy = f"one value for each of {', '.join(_names(sweep))}"
        raise UsageError(explain("cell", got, "--NAME=VALUE of one cell", remedy))
    return found[0]


def _given(sweep: Sweep, words: Sequence[str]) -> dict[str, str]:
    given = {}
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not equals or name not in _names(sweep):
            raise UsageError(explain("cell", word, near(name, _names(sweep))))
        given[name] = value
    return given


def _names(sweep: Sweep) -> tuple[str, ...]:
    draw = (DRAW,) if sweep.draws else ()
    return ("submission", *sweep.grid, *draw, "seed")


def _fits(cell: Cell, given: dict[str, str]) -> bool:
    own = {"submission": cell.submission.stem, "seed": cell.seed, DRAW: cell.draw, **cell.varied}
    return all(_same(own[name], value) for name, value in given.items())


def _same(own: object, given: str) -> bool:
    """As text, or as a number: W&B writes 0.001 as it likes."""
    if isinstance(own, str):
        return own == given
    try:
        return float(given) == own
    except ValueError:
        return False
