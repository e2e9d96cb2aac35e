"""Two raylets on this machine: a worker dies, then a node, then the driver; every cell once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from selectivbench.errors import UsageError
from selectivbench.sweep.drive import drive
from selectivbench.sweep.engines import Wish, opened
from selectivbench.sweep.folder import Folder
from selectivbench.sweep.naps import Nap
from selectivbench.sweep.work import execute

pytest.importorskip("ray", reason="the extra `ray` is not installed")
CELLS = 20
PATIENCE = 300.0
"""Seconds; a busy neighbour must not fail a test."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head that runs nothing, and a node that runs two cells at a time."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAY_AUTH_MODE", "disabled")  # or Ray writes a token into our home
        environment.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or it warns of a change
        environment.setenv("RAY_worker_niceness", "0")  # 15 starves them beside other work
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        cluster.add_node(num_cpus=2)
        yield cluster
        cluster.shutdown()


def is_busy(node: Any) -> bool:
    """Whether a worker of this node runs a cell, which Ray shows in the name of the process."""
    (raylet,) = node.all_processes["raylet"]
    threads = Path(f"/proc/{raylet.process.pid}/task").iterdir()
    children = [child for thread in threads for child in (thread / "children").read_text().split()]
    titles = [Path(f"/proc/{child}/cmdline").read_text() for child in children]
    return any(title.startswith(f"ray::{execute.__name__}") for title in titles)


def runs_of(witness: Path) -> Counter[int]:
    """How often each nap came to its end."""
    return Counter(int(line.split()[0]) for line in witness.read_text().splitlines())


def whole_records(folder: Folder) -> set[int]:
    """Numbers of the naps whose record is in its place, whole, and the right one."""
    found = set()
    for path in (folder.root / "records").glob("*/*.json"):
        record = json.loads(path.read_text())
        assert record["key"] == path.stem
        found.add(record["nap"]["number"])
    return found


def until(true: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_a_dead_worker_and_a_dead_node_lose_no_cell(cluster: Any, tmp_path: Path) -> None:
    node = cluster.add_node(num_cpus=2)
    folder, witness = Folder(tmp_path / "sweep"), tmp_path / "witness"
    folder.prepare({})

    # The first cell kills its worker, wherever that is; the node dies at the start of its first nap.
    naps = [Nap(i, 1.0, int(i == 0), str(witness)) for i in range(CELLS)]

    def kill_the_node() -> None:
        until(lambda: is_busy(node))
        cluster.remove_node(node, allow_graceful=False)

    killer = threading.Thread(target=kill_the_node)
    with opened(Wish("ray", address=cluster.address), folder.root) as engine:
        killer.start()
        tally = drive(iter(naps), engine, folder)
    killer.join()
    assert whole_records(folder) == set(range(CELLS))
    assert (tally.done, tally.failed) == (CELLS, 0)
    assert tally.lost >= 2  # the worker's cell, and at least one of the node's
    lost = [line["cause"] for line in folder.lines() if line["status"] == "lost"]
    assert any("died" in cause for cause in lost)
    twice = [number for number, times in runs_of(witness).items() if times > 1]
    assert len(twice) <= 2  # at their end when the node went, and not yet in the folder
    assert not list((folder.root / "work").iterdir())


DRIVER = """
import sys
from pathlib import Path
from selectivbench.sweep.drive import drive
from selectivbench.sweep.engines import Wish, opened
from selectivbench.sweep.folder import Folder
from selectivbench.sweep.naps import Nap

root, witness, address = sys.argv[1:]
folder = Folder(Path(root))
known = folder.known()
naps = [Nap(i, 0.4, 0, witness) for i in range(20)]
todo = [nap for nap in naps if nap.key not in known]
with opened(Wish("ray", address=address), folder.root) as engine:
    drive(iter(todo), engine, folder)
"""


@pytest.mark.full
def test_a_driver_that_is_killed_loses_what_was_running(cluster: Any, tmp_path: Path) -> None:
    folder, witness = Folder(tmp_path / "sweep"), tmp_path / "witness"
    folder.prepare({})
    command = [sys.executable, "-c", DRIVER, str(folder.root), str(witness), cluster.address]
    first = subprocess.Popen(command, env=dict(os.environ))
    until(lambda: len(folder.known()) >= CELLS // 4)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert len(folder.known()) < CELLS
    subprocess.run(command, check=True, timeout=PATIENCE)
    assert whole_records(folder) == set(range(CELLS))
    assert set(runs_of(witness).values()) == {1}


@pytest.mark.full
def test_records_travel_to_the_driver_where_nodes_do_not_see_the_folder(
    cluster: Any, tmp_path: Path
) -> None:
    folder = Folder(tmp_path / "sweep")
    folder.prepare({})
    naps = [Nap(i, 0.0) for i in range(3)]
    with opened(Wish("ray", address=cluster.address, shared=False), folder.root) as engine:
        assert engine.room() == 4  # two that run, two that wait
        drive(iter(naps), engine, folder)
    assert whole_records(folder) == {0, 1, 2}


def test_a_cell_that_no_node_can_hold_is_refused(cluster: Any, tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="room for one cell of 1 cpu and 2 gpu"),
        opened(Wish("ray", gpus=2, address=cluster.address), tmp_path),
    ):
        pass


def test_an_address_that_answers_nothing_is_one_sentence(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="the address of one that runs"),
        opened(Wish("ray", address="nowhere-at-all"), tmp_path),
    ):
        pass
