"""A real engine under cells that sleep: its figures, and the bound that a cell may cost."""

from __future__ import annotations

import pytest

from selectivbench.cli import main
from selectivbench.errors import UsageError
from selectivbench.sweep.engines import Wish
from selectivbench.sweep.rehearsal import rehearse

MOST_MS = 50


def test_naps_are_cheap_and_a_death_is_made_good() -> None:
    done = rehearse(Wish(workers=4), cells=200, seconds=0.01, deaths=0.02)
    assert (done.tally.done, done.tally.failed) == (200, 0)
    assert done.tally.lost == 2
    assert 1000 * (done.wall - done.slept / done.slots) / done.cells < MOST_MS
    assert "200 cells on 4 workers" in str(done)


def test_a_rehearsal_wants_a_number_of_workers(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="pass --workers 8"):
        rehearse(Wish(), cells=1, seconds=0.0, deaths=0.0)
    assert main(["sweep", "rehearse", "--cells", "1"]) == 2
    assert "workers: got None" in capsys.readouterr().err
