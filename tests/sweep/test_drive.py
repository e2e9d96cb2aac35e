"""The driver, with an engine that does what a test tells it; and the folder it writes to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from selectivbench.errors import UsageError
from selectivbench.sweep.drive import Outcome, drive
from selectivbench.sweep.folder import Folder
from selectivbench.sweep.naps import Nap
from selectivbench.sweep.work import Report, Work, execute


@dataclass
class Played:
    """Runs cells where it stands, last one first; ``losses`` says how often each is lost before."""

    folder: Folder
    slots: int = 3
    losses: dict[str, int] = field(default_factory=dict)
    out: list[Work] = field(default_factory=list)
    most: int = 0

    def room(self) -> int:
        return self.slots - len(self.out)

    def submit(self, work: Work) -> None:
        self.out.append(work)
        self.most = max(self.most, len(self.out))

    def wait(self) -> tuple[Outcome, ...]:
        work = self.out.pop()
        if self.losses.get(work.key, 0):
            self.losses[work.key] -= 1
            return (Outcome(work, None, "gone"),)
        return (Outcome(work, execute(work, str(self.folder.root))),)

    def close(self) -> None:
        self.out.clear()


@dataclass
class Away(Played):
    """Has no room at first, as a cluster whose nodes are still to come."""

    rounds: int = 3

    def room(self) -> int:
        return 0 if self.rounds else super().room()

    def wait(self) -> tuple[Outcome, ...]:
        if not self.rounds:
            return super().wait()
        self.rounds -= 1
        return ()


@dataclass(frozen=True)
class Broken:
    """Work that raises."""

    key: str = "ab" * 12

    def run(self, scratch: Path) -> str:
        raise ValueError(f"no room in {scratch.name[:2]}")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "sweep")
    folder.prepare({})
    return folder


def test_no_more_cells_are_out_than_there_is_room_for(folder: Folder) -> None:
    made = []

    def cells() -> Iterator[Work]:
        for number in range(50):
            made.append(number)
            assert len(made) - len(folder.known()) <= 4  # made when they are handed out, not before
            yield Nap(number, 0.0)

    engine = Played(folder)
    assert drive(cells(), engine, folder).done == 50
    assert engine.most == 3


def test_a_driver_waits_for_an_engine_that_has_no_room(folder: Folder) -> None:
    assert drive(iter([Nap(1, 0.0)]), Away(folder), folder).done == 1


def test_a_lost_cell_is_run_again_and_given_up_after_its_retries(folder: Folder) -> None:
    naps = [Nap(number, 0.0) for number in range(4)]
    engine = Played(folder, losses={naps[1].key: 2, naps[2].key: 3})
    tally = drive(iter(naps), engine, folder, retries=2)
    assert (tally.done, tally.failed, tally.lost) == (3, 1, 5)
    statuses = folder.known()
    assert [statuses[nap.key] for nap in naps] == ["pass", "pass", "lost", "pass"]


def test_work_that_raises_is_a_failure_with_its_cause(folder: Folder) -> None:
    tally = drive(iter([Broken(), Nap(1, 0.0)]), Played(folder), folder)
    assert (tally.done, tally.failed) == (1, 1)
    (line,) = (line for line in folder.lines() if line["key"] == Broken().key)
    assert (line["status"], line["cause"]) == ("error", "ValueError: no room in ab")


def test_a_cell_that_has_its_record_is_not_run_again(folder: Folder, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    nap = Nap(1, 0.0, witness=str(witness))
    reports = [execute(nap, str(folder.root)) for _ in range(2)]
    assert [report.status for report in reports] == ["pass", "pass"]
    assert len(witness.read_text().splitlines()) == 1


def test_a_record_that_failed_is_run_again(folder: Folder, tmp_path: Path) -> None:
    nap = Nap(1, 0.0, witness=str(tmp_path / "witness"))
    folder.write(nap.key, json.dumps({"status": "oom", "key": nap.key}))
    assert execute(nap, str(folder.root)).status == "pass"


def test_a_record_whose_driver_died_before_its_log_is_known(folder: Folder) -> None:
    execute(Nap(1, 0.0), str(folder.root))
    assert not list(folder.lines())
    assert folder.known() == {Nap(1, 0.0).key: "pass"}


@pytest.mark.parametrize("logged", ["lost", "error"])
def test_a_record_that_is_there_counts_whatever_the_log_says(folder: Folder, logged: str) -> None:
    """Its worker was thought dead, or another process ended the cell."""
    nap = Nap(1, 0.0)
    execute(nap, str(folder.root))
    with folder.driven() as log:
        log.note(nap.key, logged)
    assert folder.known() == {nap.key: "pass"}


def test_a_record_that_is_gone_is_not_done_whatever_the_log_says(folder: Folder) -> None:
    nap = Nap(1, 0.0)
    drive(iter([nap]), Played(folder), folder)
    folder.path(nap.key).unlink()
    assert folder.known() == {}


def test_records_that_are_logged_as_done_are_not_opened(folder: Folder) -> None:
    """A million of them would take minutes."""
    nap = Nap(1, 0.0)
    drive(iter([nap]), Played(folder), folder)
    folder.path(nap.key).write_text("unread")
    assert folder.known() == {nap.key: "pass"}


def test_a_line_that_was_torn_is_passed_over_and_the_next_one_stands_alone(folder: Folder) -> None:
    drive(iter([Nap(1, 0.0)]), Played(folder), folder)
    with folder.log.open("a") as file:
        file.write('{"key": "torn')
    drive(iter([Nap(2, 0.0)]), Played(folder), folder)
    assert [line["key"] for line in folder.lines()] == [Nap(1, 0.0).key, Nap(2, 0.0).key]


def test_a_sweep_has_one_driver_at_a_time(folder: Folder) -> None:
    with folder.driven():
        assert folder.is_driven()
        with pytest.raises(UsageError, match="got 'a second driver', allowed: one at a time"):
            drive(iter([Nap(1, 0.0)]), Played(folder), folder)
    assert not folder.is_driven()


def test_scratch_outlives_a_failure_and_goes_with_the_record(folder: Folder) -> None:
    execute(Broken(), str(folder.root))
    assert folder.running() == 1
    execute(Nap(1, 0.0), str(folder.root))
    assert folder.running() == 1


@pytest.mark.parametrize(
    ("status", "kept"), [("pass", 0), ("invalid", 0), ("oom", 1), ("error", 1)]
)
def test_a_cell_that_is_tried_again_finds_its_scratch(
    folder: Folder, status: str, kept: int
) -> None:
    with folder.working("ab" * 12):
        folder.write("ab" * 12, json.dumps({"status": status}))
    assert len(list((folder.root / "work").iterdir())) == kept
    assert folder.running() == 0  # it has ended, one way or the other


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="a folder one can write to"):
        Folder(tmp_path / "file" / "sweep").prepare({})


def test_a_report_is_done_when_a_second_run_would_give_the_same() -> None:
    done = [s for s in ("pass", "fail", "invalid", "error", "oom") if Report("k", s).done]
    assert done == ["pass", "fail", "invalid"]
