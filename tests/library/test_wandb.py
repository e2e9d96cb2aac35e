"""The real wandb, offline, read back from its files; and what happens when it hangs or fails."""

from __future__ import annotations

import io
import json
import pickle
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from selectivbench.record import Point, Record
from selectivbench.tracking import Start, wandb_process
from selectivbench.tracking.gates import Gates
from selectivbench.tracking.marks import Mirrored, is_alive
from selectivbench.tracking.mirror import MirrorError, Wandb
from selectivbench.tracking.wandb_process import Mirror, mode_of, within

SOURCE = "x = 1\n"
WANDB_VARIABLES = ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE", "WANDB_MODE", "WANDB_TAGS")
PYTHON = (sys.executable, "-c")


@pytest.fixture(autouse=True)
def no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's settings, key or home."""
    for name in (*WANDB_VARIABLES, "WANDB_RUN_GROUP", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def start(a_record: Record) -> Start:
    tasks = (a_record.identity.task, "gaps-v1")
    return Start(a_record.identity, a_record.entry, tasks, 20, {"model": {"d_model": 48}}, SOURCE)


@pytest.fixture
def second(a_record: Record) -> Record:
    """The record of another task that is evaluated on the same training."""
    return replace(a_record, identity=replace(a_record.identity, task="gaps-v1"), status="fail")


def logged(folder: Path) -> Iterator[Any]:
    """Protocol buffers of a run's file: records of a LevelDB log in blocks of 32 KiB."""
    from wandb.proto import wandb_internal_pb2

    (path,) = folder.glob("run-*.wandb")
    data, at, whole = path.read_bytes(), 7, b""  # its header has seven bytes
    while at + 7 <= len(data):
        room = 32_768 - at % 32_768
        if room < 7:
            at += room
            continue
        _, size, kind = struct.unpack_from("<IHB", data, at)
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield wandb_internal_pb2.Record.FromString(whole)
            whole = b""


def values(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def run_of(folder: Path) -> dict[str, Any]:
    """What a W&B run's file says."""
    found: dict[str, Any] = {"history": [], "summary": {}, "config": {}, "artifacts": {}}
    for record in logged(folder):
        if record.HasField("run"):
            found["run"] = record.run
            found["config"] |= values(record.run.config.update)
        elif record.HasField("config"):
            found["config"] |= values(record.config.update)
        elif record.HasField("history"):
            found["history"].append(values(record.history.item))
        elif record.HasField("summary"):
            found["summary"] |= values(record.summary.update)
        elif record.HasField("artifact"):
            found["artifacts"][record.artifact.name] = record.artifact
        elif record.HasField("exit"):
            found["exit"] = record.exit.exit_code
    return found


def test_a_training_of_two_tasks_is_two_whole_runs_at_hardly_any_cost(
    tmp_path: Path, start: Start, a_record: Record, second: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a training that was interrupted is one without a record, marked as failed."""
    monkeypatch.setenv("WANDB_TAGS", "mine, ours")
    monkeypatch.setenv("WANDB_ENTITY", "lab")
    (tmp_path / "wandb.py").write_text("raise ImportError('planted in the working folder')")
    wandb = Wandb("bench", tmp_path, patience=500)
    began = time.thread_time()
    follower = wandb.follow(start)
    for point in a_record.curve:
        follower.point(point.step, 60, point.loss, point.accuracy)
    for record in (a_record, second):
        follower.done(record)
    follower.end()
    assert time.thread_time() - began < 0.1  # of a case that takes ten seconds or more
    wandb.known(second, SOURCE)  # another case finds the record that has a run already
    interrupted = wandb.follow(start)
    interrupted.point(10, 60, 2.0, None)
    interrupted.end()
    wandb.close()

    marks = [Mirrored.of(tmp_path, record.identity.stem) for record in (a_record, second)]
    assert [(m.mode, m.whole, m.project) for m in marks if m] == [("offline", True, "bench")] * 2
    folders = [Path(mark.folder) for mark in marks if mark]
    for folder, record in zip(folders, (a_record, second), strict=True):
        _check_run(run_of(folder), record)
    assert run_of(folders[0])["config"]["model"] == {"d_model": 48}
    (third,) = {*(tmp_path / "wandb").glob("offline-run-*")} - {*folders}
    run = run_of(third)
    assert (run["exit"], len(run["history"]), run["artifacts"]) == (1, 1, {})


def test_a_run_shows_what_its_gates_do(
    tmp_path: Path, a_record: Record, a_probe: dict[str, Any], gates: Gates
) -> None:
    """Of the model that was listened to, and of the probe in the record; both are pictures."""
    pytest.importorskip("matplotlib", reason="the extra `figures` is not installed")
    record = replace(a_record, probe=a_probe)
    gates.write(Gates.path(tmp_path, record.identity.stem))
    wandb = Wandb("bench", tmp_path, patience=500)
    wandb.known(record, SOURCE)
    wandb.close()
    mark = Mirrored.of(tmp_path, record.identity.stem)
    assert mark is not None
    run = run_of(Path(mark.folder))
    last = run["history"][-1]
    for name in ("gates/gates", "gates/ranges"):
        file = Path(mark.folder) / "files" / last[f"{name}/path"]
        assert file.read_bytes().startswith(b"\x89PNG")
        assert last[f"{name}/width"] == 960
    assert [row["_step"] for row in run["history"]] == [10, 20]  # no step of their own


@pytest.fixture
def gates() -> Gates:
    rng = np.random.default_rng(1)
    arrays: dict[str, Any] = {
        "tokens": rng.integers(0, 3, (4, 12)).astype(np.int16),
        "kinds": rng.integers(0, 2, (4, 12)).astype(np.int8),
        "0/Δ/trace": rng.random((4, 12)),
        "0/Δ/means": rng.random((2, 8)),
        "0/Δ/counts": rng.integers(1, 9, (2, 40)),
        "0/Δ/edges": np.linspace(0, 1, 41),
    }
    return Gates(arrays, ("symbol", "filler"), ("a", "b", "c"))


@pytest.fixture
def a_probe() -> dict[str, Any]:
    kinds = {"symbol": {"steps": 9, "quantiles": [0.0, 0.1, 0.2, 0.3, 0.4]}}
    return {"signals": [{"layer": "0", "name": "Δ", "kinds": kinds}]}


def test_gates_survive_their_file_and_another_file_is_none(tmp_path: Path, gates: Gates) -> None:
    path = Gates.path(tmp_path, "case")
    assert Gates.read(path) is None
    gates.write(path)
    back = Gates.read(path)
    assert back is not None
    assert (back.kinds, back.symbols) == (gates.kinds, gates.symbols)
    assert set(back.arrays) == set(gates.arrays)
    np.testing.assert_array_equal(back.arrays["0/Δ/trace"], gates.arrays["0/Δ/trace"])
    np.save(plain := io.BytesIO(), np.zeros(3))
    for other in (b"", b"PK\x03\x04 torn", path.read_bytes()[:400], plain.getvalue()):
        path.write_bytes(other)
        assert Gates.read(path) is None


def test_without_matplotlib_a_run_is_whole_and_the_extra_is_named(
    tmp_path: Path, a_record: Record, gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("selectivbench.figures.page.find_spec", lambda _: None)
    gates.write(Gates.path(tmp_path, a_record.identity.stem))
    mirror = Mirror(Service(""))
    mark = Mirrored.path(tmp_path, a_record.identity.stem)
    mirror.record(a_record.to_json(), SOURCE, str(mark), "p")
    assert mirror.trouble.startswith("no pictures: matplotlib: got 'not installed'")
    mirrored = Mirrored.at(mark)
    assert mirrored is not None
    assert mirrored.whole
    mirror.handle({"do": "point", "step": 1})
    mirror.handle({"do": "record", "record": "{}", "source": "", "mark": "", "project": "p"})
    pictures, other = mirror.trouble.split(
        "; Mirror.point() missing"
    )  # not the second one of a kind
    assert "matplotlib" in pictures
    assert "record" not in other


def _check_run(run: dict[str, Any], record: Record) -> None:
    identity, told = record.identity, run["run"]
    assert (told.project, told.entity, told.job_type) == ("bench", "lab", "lite")
    assert told.display_name == f"lstm {identity.task}[seed1]"
    assert told.run_group == f"lstm {identity.task}"
    assert told.host == "redacted"
    assert {"gated", identity.task, "mine", "ours", record.status} <= set(told.tags)
    curve = [
        (step["_step"], step["train/loss"], step.get("validation/accuracy"))
        for step in run["history"]
    ]
    assert curve == [(10, 2.0, 0.5), (20, 1.0, None)]
    assert run["summary"]["verdict"] == record.status
    assert run["summary"]["score"] == 0.9886
    assert run["summary"]["accuracy/test"] == 0.99
    assert run["config"]["seed"] == 1
    assert run["config"]["environment"] == {"torch": "2.13.0"}
    names = {name.partition(":")[0] for name in run["artifacts"]}
    assert names == {f"record-{identity.key}", "source-lstm"}
    assert run["exit"] == 0


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import time; time.sleep(99)", "no answer within 0.5 s; 1 not mirrored"),
        ("raise SystemExit(3)", "it ended with exit code 3; 1 not mirrored"),
        ("import os; os.kill(os.getpid(), 11)", "it ended with exit code -11; 1 not mirrored"),
        ("import sys; sys.stdin.read(); print('no key')", "no key; 1 not mirrored"),
        ("import sys; sys.stdin.read()", "it stopped early; 1 not mirrored"),
    ],
)
def test_a_process_that_hangs_or_dies_costs_one_sentence(
    tmp_path: Path, start: Start, a_record: Record, code: str, said: str
) -> None:
    wandb = Wandb(
        "bench", tmp_path, patience=0.5 if "sleep" in code else 60, command=(*PYTHON, code)
    )
    began = time.monotonic()
    follower = wandb.follow(replace(start, source="x" * 100_000))  # more than a pipe holds
    for step in range(1, 1_001):
        follower.point(step, 1_000, 1.0, None)
    follower.done(a_record)
    follower.end()
    assert time.monotonic() - began < 30  # nobody waited for it
    with pytest.raises(MirrorError, match=said):
        wandb.close()
    assert Mirrored.of(tmp_path, a_record.identity.stem) is None  # so it is tried again


def test_a_broken_wandb_is_said(
    tmp_path: Path, a_record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wandb.py").write_text("raise ImportError('half installed')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    wandb = Wandb("bench", tmp_path / "session")
    (tmp_path / "session").mkdir()
    wandb.known(a_record, SOURCE)
    with pytest.raises(MirrorError, match="half installed; 1 not mirrored"):
        wandb.close()


CLAIMING = """
import os, pickle, signal, sys
from pathlib import Path
from selectivbench.tracking.mirror import Wandb
folder, code = sys.argv[1:]
wandb = Wandb("bench", Path(folder), command=(sys.executable, "-c", code))
wandb.known(pickle.load(sys.stdin.buffer), "")
os.kill(os.getpid(), signal.SIGKILL)
"""
READS_ALL = "import sys; sys.stdin.read()"


@pytest.mark.parametrize(
    ("code", "told"), [(READS_ALL, ["record"]), (f"{READS_ALL}; import time; time.sleep(10)", [])]
)
def test_a_claim_lives_as_long_as_somebody_can_make_its_run(
    tmp_path: Path, a_record: Record, code: str, told: list[str]
) -> None:
    """A worker is killed after its claim: the process that it told goes on, or is gone too."""
    worker = [*PYTHON, CLAIMING, str(tmp_path), code]
    killed = subprocess.run(worker, input=pickle.dumps(a_record), timeout=60)
    assert killed.returncode == -signal.SIGKILL
    mark = Mirrored.of(tmp_path, a_record.identity.stem)
    assert mark is not None
    assert not mark.whole
    until(lambda: is_alive(tmp_path, mark.claimant) != bool(told))
    assert known_twice(tmp_path, a_record) == told


@pytest.mark.parametrize("name", ["", ".", "../kept", "kept", "wandb-.lock"])
def test_a_mark_that_names_no_claim_is_of_nobody_and_removes_nothing(
    tmp_path: Path, a_record: Record, name: str
) -> None:
    """One that an older version left half made names none; one from elsewhere may name anything."""
    session = tmp_path / "session"
    session.mkdir()
    files = [tmp_path / "kept", session / "kept", session / "wandb-.lock"]
    for file in files:
        file.write_text("mine")
    mark = Mirrored("bench", a_record.created, claimant=name)
    mark.write(Mirrored.path(session, a_record.identity.stem))
    assert known_twice(session, a_record) == ["record"]
    assert all(file.exists() for file in files)


def known_twice(folder: Path, record: Record) -> list[str]:
    """What another worker tells its process about a record that it comes to twice."""
    told: list[str] = []
    wandb = Wandb("bench", folder, command=(*PYTHON, READS_ALL))
    wandb._tell = lambda do, **_: told.append(do)  # type: ignore[method-assign]
    wandb.known(record, "")
    wandb.known(record, "")
    with suppress(MirrorError):
        wandb.close()
    return told


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_no_claim_is_left_when_all_is_said(tmp_path: Path, a_record: Record) -> None:
    wandb = Wandb("bench", tmp_path, command=(*PYTHON, READS_ALL))
    wandb.known(a_record, "")
    assert len(list(tmp_path.glob("*.lock"))) == 1
    with pytest.raises(MirrorError, match="it stopped early; 1 not mirrored"):
        wandb.close()
    assert not list(tmp_path.glob("*.lock"))


def test_nothing_starts_before_there_is_something_to_say(tmp_path: Path) -> None:
    Wandb("bench", tmp_path, command=("/does/not/exist",)).close()


@pytest.mark.parametrize(
    ("own", "environ", "netrc", "mode"),
    [
        ("online", {}, "", "offline"),
        ("online", {"WANDB_API_KEY": "k"}, "", "online"),
        ("online", {"WANDB_IDENTITY_TOKEN_FILE": "f"}, "", "online"),
        ("online", {"WANDB_MODE": "online"}, "", "online"),
        ("online", {}, "machine api.wandb.ai login user password k\n", "online"),
        ("online", {}, "machine elsewhere.org login user password k\n", "offline"),
        ("online", {}, "machine", "offline"),
        ("offline", {"WANDB_API_KEY": "k"}, "", "offline"),
        ("disabled", {}, "", "disabled"),
        ("shared", {}, "", "shared"),
    ],
)
def test_the_mode_is_wandbs_own_unless_there_is_no_key(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own: str,
    environ: dict[str, str],
    netrc: str,
    mode: str,
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".netrc").write_text(netrc)
    settings = SimpleNamespace(mode=own, base_url="https://api.wandb.ai")
    assert mode_of(settings) == mode


class Service:
    """In wandb's place: online runs cannot be opened, or not be completed."""

    def __init__(self, fails: str) -> None:
        self.fails, self.modes = fails, list[str]()

    def setup(self) -> SimpleNamespace:
        return SimpleNamespace(settings=SimpleNamespace(mode="online", base_url="https://x.org"))

    def Settings(self, **given: Any) -> SimpleNamespace:  # noqa: N802 - wandb's name
        return SimpleNamespace(sync_dir="folder", **given)

    def Artifact(self, name: str, type: str) -> SimpleNamespace:  # noqa: N802 - wandb's name
        return SimpleNamespace(
            new_file=lambda file, **_: Path(file).open("w"), name=name, type=type
        )

    def init(self, settings: Any, **_: Any) -> SimpleNamespace:
        self.modes.append(settings.mode)
        if settings.mode == "online" and self.fails == "init":
            raise ConnectionError("no way\nto the server")
        return SimpleNamespace(
            settings=settings, url="https://x.org/lab/p/runs/1", tags=(), config={}, summary={},
            log=lambda *_, **__: None, log_artifact=lambda _: None, finish=self.finish,
        )  # fmt: skip

    def finish(self, exit_code: int) -> None:  # noqa: ARG002
        if self.modes[-1] == "online" and self.fails == "finish":
            time.sleep(9)


@pytest.mark.parametrize(
    ("fails", "modes", "ended", "said"),
    [
        ("", ["online", "online"], "online", ""),
        ("init", ["online", "offline", "offline"], "offline", "no way to the server"),
        ("finish", ["online", "offline"], "offline", "no answer within 1 s"),
    ],
)
def test_what_w_and_b_does_not_take_is_kept_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, a_record: Record, second: Record,
    fails: str, modes: list[str], ended: str, said: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("WANDB_API_KEY", "k")
    monkeypatch.setattr(wandb_process, "PATIENCE", 1)
    service = Service(fails)
    mirror = Mirror(service)
    for record in (a_record, second):
        mark = Mirrored.path(tmp_path, record.identity.stem)
        mirror.record(record.to_json(), SOURCE, str(mark), "p")
    assert service.modes == modes
    assert mirror.trouble == (f"{said}; runs are kept offline" if said else "")
    first = Mirrored.of(tmp_path, a_record.identity.stem)
    assert first is not None
    assert (first.mode, first.whole, bool(first.url)) == (ended, True, ended == "online")


@pytest.fixture(params=["refuses", "hangs"])
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    """An address where W&B is not: nobody listens, or somebody who never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if request.param == "hangs":
            listener.listen()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


HURRIED = """
from selectivbench.tracking import wandb_process
wandb_process.PATIENCE = 5
wandb_process.main()
"""


@pytest.mark.full
def test_the_real_wandb_online_without_its_server_is_one_sentence_and_whole_offline_runs(
    tmp_path: Path, a_record: Record, second: Record, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", server)
    wandb = Wandb("bench", tmp_path, patience=300, command=(*PYTHON, HURRIED))
    began = time.monotonic()
    for record in (a_record, second):
        wandb.known(record, SOURCE)
    assert time.monotonic() - began < 5  # nobody waited
    with pytest.raises(MirrorError, match=r"runs are kept offline\.$"):
        wandb.close()
    for record in (a_record, second):
        mark = Mirrored.of(tmp_path, record.identity.stem)
        assert mark is not None
        assert (mark.mode, mark.whole) == ("offline", True)
        assert run_of(Path(mark.folder))["summary"]["verdict"] == record.status


def test_patience_ends() -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="no answer within 1 s"), within(1):
        time.sleep(9)
    assert time.monotonic() - began < 5
    with within(1):
        pass
    time.sleep(1.2)  # the alarm is off


def test_a_record_is_mirrored_again_for_another_project_or_result(
    tmp_path: Path, a_record: Record
) -> None:
    told: list[str] = []
    with ExitStack() as workers:
        for project, created in (("p", "1"), ("p", "1"), ("q", "1"), ("q", "2"), ("q", "2")):
            wandb = Wandb(project, tmp_path, command=(*PYTHON, READS_ALL))
            wandb._tell = lambda do, **_: told.append(do)  # type: ignore[method-assign]
            wandb.known(replace(a_record, created=created, curve=(Point(1, 1.0),)), SOURCE)
            workers.enter_context(suppress(MirrorError))
            workers.callback(wandb.close)
    assert told == ["record"] * 3
