"""What follows a training: events on disk, several trackings as one, and the live table."""

from __future__ import annotations

import io
import json
import os
import pickle
import pty
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from selectivbench import watch as watching
from selectivbench.cli import main
from selectivbench.errors import UsageError
from selectivbench.record import Point, Record
from selectivbench.tracking import NullTracker, Start
from selectivbench.tracking.events import ENDING, Events
from selectivbench.tracking.reading import Followed, read
from selectivbench.tracking.together import Together
from selectivbench.watch import table, watch


@pytest.fixture
def start(a_record: Record) -> Start:
    tasks = (a_record.identity.task, "other-v1")
    return Start(a_record.identity, a_record.entry, tasks, 20, {"model": {}}, "x = 1\n")


def events_of(folder: Path) -> list[dict[str, object]]:
    (path,) = folder.glob(f"*{ENDING}")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_training_is_told_line_by_line(tmp_path: Path, start: Start, a_record: Record) -> None:
    began = time.time()
    follower = Events(tmp_path / "session").follow(start)
    follower.point(10, 20, 2.0, 0.5)
    follower.point(20, 20, 1.0, None)
    follower.done(a_record)
    follower.end()
    events = events_of(tmp_path / "session")
    assert all(began - 1 < float(str(event.pop("time"))) < time.time() + 1 for event in events)
    identity = a_record.identity
    assert events == [
        {
            "event": "started",
            "key": identity.key,
            "entry": "lstm",
            "task": "selective_copy-v1",
            "tasks": ["selective_copy-v1", "other-v1"],
            "variant": "base",
            "profile": "lite",
            "seed": 1,
            "steps": 20,
        },
        {"event": "point", "step": 10, "of": 20, "loss": 2.0, "accuracy": 0.5},
        {"event": "point", "step": 20, "of": 20, "loss": 1.0, "accuracy": None},
        {
            "event": "done",
            "key": identity.key,
            "task": "selective_copy-v1",
            "status": "pass",
            "accuracy": 0.99,
            "score": 0.9886,
        },
        {"event": "ended"},
    ]


def test_events_are_there_at_once_and_the_state_follows(
    tmp_path: Path, start: Start, a_record: Record
) -> None:
    follower = Events(tmp_path).follow(start)
    (run,) = read(tmp_path)
    assert (run.name, run.state, run.points) == ("lstm selective_copy-v1[seed1]", "running", ())
    follower.point(10, 20, 2.0, 0.5)
    (run,) = read(tmp_path)
    assert (run.points[0].step, run.points[0].loss, run.points[0].accuracy) == (10, 2.0, 0.5)
    follower.done(a_record)
    follower.end()
    (run,) = read(tmp_path)
    assert (run.state, run.statuses) == ("over", ("pass",))


def test_a_later_run_is_appended_and_the_last_one_is_read(tmp_path: Path, start: Start) -> None:
    for loss in (3.0, 2.0):
        follower = Events(tmp_path).follow(start)
        follower.point(10, 20, loss, None)
        follower.end()
    (run,) = read(tmp_path)
    assert [point.loss for point in run.points] == [2.0]
    assert [event["event"] for event in events_of(tmp_path)] == ["started", "point", "ended"] * 2


KILLED = """
import os, pickle, signal, sys
from pathlib import Path
from typing import Any
from selectivbench.tracking.events import Events
follower = Events(Path(sys.argv[1])).follow(pickle.load(sys.stdin.buffer))
follower.point(10, 20, 2.0, None)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_training_whose_process_was_killed_is_stopped(tmp_path: Path, start: Start) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    assert subprocess.run(command, input=pickle.dumps(start)).returncode == -signal.SIGKILL
    (run,) = read(tmp_path)
    assert (run.state, len(run.points)) == ("stopped", 1)
    assert "stopped" in "\n".join(table([run], time.time()))


def test_a_torn_line_costs_only_itself(tmp_path: Path, start: Start) -> None:
    follower = Events(tmp_path).follow(start)
    (path,) = tmp_path.glob(f"*{ENDING}")
    follower.point(10, 20, 2.0, None)
    with path.open("a") as file:
        file.write('{"event": "point", "st')  # a process was killed here
    follower.end()
    follower = Events(tmp_path).follow(start)
    follower.point(5, 20, 1.5, None)
    (run,) = read(tmp_path)
    assert [point.step for point in run.points] == [5]
    follower.end()


STARTED = '{"event": "started", "time": 1, "entry": "a", "task": "b", "variant": "c", "seed": 1'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense\n",
        "[]\n",
        '{"event": "point", "time": 1}\n',
        '{"event": "started", "time": 1}\n',
        STARTED + ', "steps": "many"}\n',
        STARTED + ', "steps": 1}\n{"event": "point", "time": 1, "step": 1, "loss": "low"}\n',
    ],
)
def test_a_file_of_something_else_is_passed_over(tmp_path: Path, text: str) -> None:
    (tmp_path / f"x{ENDING}").write_text(text)
    assert read(tmp_path) == []


class Recorder(NullTracker):
    """Notes what it is told, and raises where it is asked to."""

    def __init__(self, name: str, fails: str = "") -> None:
        self.name, self.fails, self.told = name, fails, list[str]()

    def _note(self, what: str) -> None:
        self.told.append(what)
        if what == self.fails:
            raise OSError(f"{what} went wrong")

    def follow(self, start: Start) -> Recorder:  # noqa: ARG002
        self._note("follow")
        return self

    def point(self, *_: object) -> None:
        self._note("point")

    def done(self, record: Record) -> None:  # noqa: ARG002
        self._note("done")

    def end(self) -> None:
        self._note("end")

    def known(self, record: Record, source: str) -> None:  # noqa: ARG002
        self._note("known")

    def close(self) -> None:
        self._note("close")


ALL = ["follow", "point", "point", "done", "end", "known", "close"]


@pytest.mark.parametrize(
    ("fails", "told"),
    [
        ("", ALL),
        ("follow", ["follow", "known", "close"]),
        ("point", ["follow", "point", "end", "known", "close"]),
        ("done", ["follow", "point", "point", "done", "end", "known", "close"]),
        ("end", ALL),
        ("known", ALL),
        ("close", ALL),
    ],
)
def test_a_member_that_fails_is_said_once_and_harms_nobody(
    start: Start, a_record: Record, fails: str, told: list[str]
) -> None:
    before, failing, after = Recorder("a"), Recorder("b", fails), Recorder("c")
    together = Together([before, failing, after])
    follower = together.follow(start)
    follower.point(1, 2, 0.5, None)
    follower.point(2, 2, 0.5, None)
    follower.done(a_record)
    follower.end()
    together.known(a_record, "")
    together.close()
    assert before.told == after.told == ALL
    assert failing.told == told
    assert together.troubles == ((f"b: {fails} went wrong",) if fails else ())


def test_a_member_that_failed_once_is_asked_again_and_said_once(start: Start) -> None:
    failing = Recorder("b", "point")
    together = Together([failing])
    for _ in range(2):
        follower = together.follow(start)
        follower.point(1, 2, 0.5, None)
        follower.end()
    assert failing.told == ["follow", "point", "end"] * 2
    assert len(together.troubles) == 1


def test_a_full_disk_is_one_trouble(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    together = Together([Events(tmp_path)])
    follower = together.follow(start)
    monkeypatch.setattr(os, "write", full)
    follower.point(1, 20, 1.0, None)
    follower.point(2, 20, 1.0, None)
    follower.end()
    monkeypatch.undo()
    assert together.troubles == ("events: [Errno 28] No space left on device",)
    assert read(tmp_path)[0].state == "stopped"  # the file was let go of all the same


RUN = Followed("lstm copy-v1[seed1]", 100, 1000.0, 1010.0, (), 1000.0, (), "running")


def trained(*losses: float, **changes: Any) -> Followed:
    """With a point every ten steps, the last one ten seconds after the start."""
    points = tuple(Point(10 * i, loss, 0.25) for i, loss in enumerate(losses, start=1))
    return replace(RUN, points=points, trained_until=1010.0, **changes)


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (RUN, "training 0/100 - - 12 s -"),
        (trained(3.0, 2.0), "training 20/100 2.000 █▁ 0.250 12 s 38 s"),
        (trained(*[1.0] * 10), f"evaluating 100/100 1.000 {'▁' * 10} 0.250 12 s -"),
        (trained(3.0, state="stopped"), "stopped 10/100 3.000 ▁ 0.250 10 s -"),
        (
            trained(3.0, state="over", statuses=("pass", "fail")),
            "pass, fail 10/100 3.000 ▁ 0.250 10 s -",
        ),
        (trained(3.0, state="over", statuses=("oom", "oom")), "oom 10/100 3.000 ▁ 0.250 10 s -"),
        (replace(RUN, latest=1100.0, state="stopped"), "stopped 0/100 - - 1 min 40 s -"),
        (replace(RUN, latest=9000.0, state="stopped"), "stopped 0/100 - - 2 h 13 -"),
    ],
)
def test_a_row_says_state_figures_and_time_left(run: Followed, said: str) -> None:
    _, row, tail = table([run], 1012.0)
    assert " ".join(row.split()) == f"lstm copy-v1[seed1] {said}"
    assert tail == f"{int(run.state == 'running')} of 1 running"


def test_what_runs_comes_first_and_the_rest_is_counted() -> None:
    over = [replace(RUN, name=f"old{i}", state="over", latest=float(i)) for i in range(9)]
    lines = table([*over, RUN], 1010.0, room=5)
    assert [line.split()[0] for line in lines[1:-1]] == ["lstm", "old8", "old7"]
    assert lines[-1] == "1 of 10 running, 7 not shown"
    assert len(lines) == 5


def test_a_name_commands_no_terminal() -> None:
    assert "\033" not in "".join(table([replace(RUN, name="x\033[2J")], 1010.0))


def test_watch_prints_once_where_there_is_no_terminal(
    tmp_path: Path, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    follower = Events(tmp_path / "session").follow(start)
    follower.point(10, 20, 2.0, 0.5)
    assert main(["watch", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "lstm selective_copy-v1[seed1]  training  10/20  2.000" in out
    assert "\033" not in out
    follower.end()


def test_an_empty_session_and_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="what --selectiv-out was given"):
        watch(tmp_path, io.StringIO())
    (tmp_path / "session").mkdir()
    assert watch(tmp_path, io.StringIO()) == "nothing has run yet"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_live_table_ends_cleanly(tmp_path: Path, start: Start, number: signal.Signals) -> None:
    """On a real terminal: it shows, is told to end, and leaves the screen as it was."""
    follower = Events(tmp_path / "session").follow(start)
    follower.point(10, 20, 2.0, 0.5)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "selectivbench.cli", "watch", str(tmp_path)]
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # deaf in the background
    )
    os.close(theirs)
    seen = b""
    while b"running" not in seen:
        seen += os.read(ours, 4096)
    process.send_signal(number)
    assert process.wait(60) == 0  # a busy machine is slow to tell it
    seen += os.read(ours, 65536)
    os.close(ours)
    follower.end()
    first, last = watching.FULL_SCREEN.encode(), watching.NORMAL_SCREEN.encode()
    assert seen.startswith(first)
    assert b"Traceback" not in seen
    assert b"1 of 1 running" in seen.partition(last)[2]
