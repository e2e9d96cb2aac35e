"""Real processes of this machine: pinned, one thread, replaced when they die."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from selectivbench.errors import UsageError
from selectivbench.sweep import engines
from selectivbench.sweep.drive import drive
from selectivbench.sweep.engines import Wish, opened
from selectivbench.sweep.folder import Folder
from selectivbench.sweep.naps import Nap

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Look:
    """Writes down where it runs."""

    number: int

    @property
    def key(self) -> str:
        return f"{self.number:024d}"

    def run(self, scratch: Path) -> str:
        assert scratch.is_dir()
        time.sleep(0.2)  # long enough for the other worker to get one too
        seen = {
            "cores": sorted(os.sched_getaffinity(0)),
            "threads": os.environ["OMP_NUM_THREADS"],
            "pid": os.getpid(),
        }
        return json.dumps({"status": "pass", "seen": seen})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # workers import the cells of this file
    folder = Folder(tmp_path / "sweep")
    folder.prepare({})
    return folder


def test_a_worker_that_dies_takes_one_cell_along_which_is_run_again(
    folder: Folder, tmp_path: Path
) -> None:
    witness = tmp_path / "witness"
    naps = [Nap(i, 0.02, deaths=int(i == 3), witness=str(witness)) for i in range(8)]
    with opened(Wish(workers=2), folder.root) as engine:
        tally = drive(iter(naps), engine, folder)
    assert (tally.done, tally.failed, tally.lost) == (8, 0, 1)
    assert sorted(int(line.split()[0]) for line in witness.read_text().splitlines()) == list(
        range(8)
    )
    (lost,) = (line for line in folder.lines() if line["status"] == "lost")
    assert lost["cause"] == "its worker was ended by SIGKILL"


def test_workers_are_pinned_to_cores_of_their_own_with_one_thread(folder: Folder) -> None:
    cores = sorted(os.sched_getaffinity(0))[:2]
    looks = [Look(number) for number in range(8)]
    with opened(Wish(workers=len(cores)), folder.root) as engine:
        drive(iter(looks), engine, folder)
    seen = [json.loads(folder.read(look.key) or "")["seen"] for look in looks]
    assert {tuple(entry["cores"]) for entry in seen} == {(core,) for core in cores}
    assert {entry["threads"] for entry in seen} == {"1"}
    assert len({entry["pid"] for entry in seen}) == len(cores)  # they live on from cell to cell


DRIVER = """
import sys
from pathlib import Path
from selectivbench.sweep.drive import drive
from selectivbench.sweep.engines import Wish, opened
from selectivbench.sweep.folder import Folder
from selectivbench.sweep.naps import Nap

folder = Folder(Path(sys.argv[1]))
known = folder.known()
naps = [Nap(i, float(sys.argv[3]), 0, sys.argv[2]) for i in range(8)]
with opened(Wish(workers=2), folder.root) as engine:
    drive((nap for nap in naps if nap.key not in known), engine, folder)
"""


def test_workers_do_not_outlive_a_driver_that_is_killed(folder: Folder) -> None:
    command = [sys.executable, "-c", DRIVER, str(folder.root), str(folder.root / "w"), "600"]
    driver = subprocess.Popen(command)
    while not (workers := workers_of(folder)) or not folder.running():
        assert driver.poll() is None
        time.sleep(0.01)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    end = time.monotonic() + 60
    while set(workers) & set(workers_of(folder)):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_worker_whose_driver_is_gone_before_it_starts_takes_no_cell(folder: Folder) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-m", "selectivbench.sweep.engines.worker"]
        somebody_else = str(os.getppid())
        words = [*command, str(theirs.fileno()), "0", str(folder.root), somebody_else]
        subprocess.run(words, pass_fds=[theirs.fileno()], check=True, timeout=120)


def workers_of(folder: Folder) -> list[int]:
    """Processes that were started for the folder, by their command lines."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            line = path.read_bytes().split(b"\0")
            if str(folder.root).encode() in line and b"selectivbench.sweep.engines.worker" in line:
                found.append(int(path.parent.name))
    return found


def test_a_killed_driver_loses_what_was_running_and_the_next_one_runs_the_rest(
    folder: Folder, tmp_path: Path
) -> None:
    witness = tmp_path / "witness"
    command = [sys.executable, "-c", DRIVER, str(folder.root), str(witness), "0.2"]
    first = subprocess.Popen(command)
    while len(folder.known()) < 2:
        assert first.poll() is None
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert len(folder.known()) < 8
    subprocess.run(command, check=True)
    assert len(folder.known()) == 8
    ran = sorted(int(line.split()[0]) for line in witness.read_text().splitlines())
    assert ran == list(range(8))  # none twice: what ran when the driver died never came to its end


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (Wish("locl"), "did you mean 'local'?"),
        (Wish(workers=0), "workers: got 0, allowed: 1 or more"),
    ],
)
def test_a_bad_wish(wish: Wish, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught, opened(wish, tmp_path):
        pass
    assert said in str(caught.value)


def test_an_engine_that_is_missing_comes_with_the_way_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "find_spec", lambda _: None)
    with (
        pytest.raises(UsageError, match=r"pip install 'selectivbench\[ray\]'"),
        opened(Wish("ray"), tmp_path),
    ):
        pass
