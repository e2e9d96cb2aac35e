"""The ladder's rungs as a child sees them, what they cost, and what is left when all goes wrong."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from selectivbench.errors import ChildCrashed, ChildFailed, ChildTimeout, UsageError
from selectivbench.record import Record
from selectivbench.sandbox import child, confine, landlock, levels, limits, namespaces, paths
from selectivbench.sandbox.controller import opened, printable
from selectivbench.sandbox.environment import environment
from selectivbench.sandbox.exits import Exit, exit_of
from selectivbench.sandbox.folders import sweep
from selectivbench.sandbox.launch import ForkServer, InProcess
from selectivbench.sandbox.levels import Isolation
from selectivbench.sandbox.protocol import Channel
from tests.library.test_launch import order, predict

LOOK = """
import json, resource, socket
def facts():
    limit = resource.getrlimit
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    yield "user", os.getuid()
    yield "groups", os.getgroups()
    yield "capabilities", int(status["CapEff"], 16) | int(status["CapPrm"], 16)
    yield "new_privileges", 1 - int(status["NoNewPrivs"])
    yield "descriptors", sorted(int(n) for n in os.listdir("/proc/self/fd"))
    yield "core", limit(resource.RLIMIT_CORE)
    yield "files", limit(resource.RLIMIT_NOFILE)[1]
    yield "size", limit(resource.RLIMIT_FSIZE)[1]
    yield "tasks", limit(resource.RLIMIT_NPROC)[1]
    yield "space", limit(resource.RLIMIT_AS)[1]
    yield "home", os.environ["HOME"] == os.getcwd() == os.environ["TMPDIR"]
    yield "folder", sorted(os.listdir("."))
    yield "leads", os.getsid(0) == os.getpgrp() == os.getpid()
    yield "processes", sum(name.isdecimal() for name in os.listdir("/proc"))
    yield "pid", os.getpid()
    yield "host", socket.gethostname()
    yield "interfaces", [name for _, name in socket.if_nameindex()]
    yield "arguments", sys.argv
    yield "path", sys.path
raise RuntimeError("FACTS" + json.dumps(dict(facts())))
"""


def wanted(level: int) -> Isolation:
    try:
        return levels.resolve(str(level))
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[int, ForkServer]]:
    started: dict[int, ForkServer] = {}
    yield started
    for server in started.values():
        server.close()


def server_of(servers: dict[int, ForkServer], level: int) -> ForkServer:
    if level not in servers:
        servers[level] = ForkServer("cpu", frozenset(), wanted(level))
    return servers[level]


@pytest.fixture
def server(servers: dict[int, ForkServer]) -> ForkServer:
    return server_of(servers, 1)


def seen(server: ForkServer) -> dict[str, Any]:
    with pytest.raises(ChildFailed) as caught, opened(server, order(top=LOOK)):
        pass
    found: dict[str, Any] = json.loads(str(caught.value).rpartition("FACTS")[2])
    return found


@pytest.mark.parametrize("level", [1, 2, 3])
def test_what_a_child_has(servers: dict[int, ForkServer], level: int) -> None:
    server = server_of(servers, level)
    facts = seen(server)
    assert facts["capabilities"] == facts["new_privileges"] == 0
    assert facts["descriptors"][:3] == [0, 1, 2]
    assert len(facts["descriptors"]) <= 5  # the channel, and the one that lists them
    assert facts["core"] == [0, 0]
    assert facts["files"] == limits.MOST_DESCRIPTORS
    assert facts["size"] == limits.LARGEST_FILE
    assert facts["space"] > limits.LEAST_MEMORY
    assert facts["home"]
    assert facts["leads"]
    assert facts["folder"] == (["mine.py"])
    assert facts["arguments"] == [""]
    assert "" not in facts["path"]
    assert os.getcwd() not in facts["path"] or Path(os.getcwd(), "selectivbench").is_dir()
    if server.isolation.user:
        assert facts["user"] >= 2_000_000_000
        assert facts["groups"] == []
        assert facts["tasks"] == limits.MOST_TASKS
    else:
        assert facts["user"] == os.getuid()
        assert facts["tasks"] >= limits.MOST_TASKS


def test_namespaces_hide_what_is_outside(servers: dict[int, ForkServer]) -> None:
    outside, inside = seen(server_of(servers, 1)), seen(server_of(servers, 3))
    assert inside["pid"] < 10 < outside["pid"]
    assert inside["processes"] <= 2 < outside["processes"]
    assert inside["interfaces"] == ["lo"]
    assert inside["host"] == "selectivbench"


def test_no_two_children_have_one_user(server: ForkServer) -> None:
    if not server.isolation.user:
        pytest.skip("children keep the controller's user here")
    assert seen(server)["user"] != seen(server)["user"]


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_level_costs_at_most_a_third_of_a_second(
    servers: dict[int, ForkServer], level: int
) -> None:
    """Over level 0, a thread; medians in turns, since others work on this machine too."""
    rungs = {0: InProcess("cpu", frozenset()), level: server_of(servers, level)}
    taken: dict[int, list[float]] = {0: [], level: []}
    for _ in range(6):
        for rung, launcher in rungs.items():
            start = time.monotonic()
            with opened(launcher, order()):
                pass
            taken[rung].append(time.monotonic() - start)
    assert median(taken[level][1:]) - median(taken[0][1:]) < 0.3


def test_an_empty_childs_peak_is_not_its_parents(servers: dict[int, ForkServer]) -> None:
    with opened(server_of(servers, 1), order()) as child:
        pass
    assert child.exit is not None
    assert child.exit.peak_memory is not None
    baseline = child.entered["baseline"]
    assert baseline > 100 << 20  # torch, which it did not ask for
    assert 0 <= child.exit.peak_memory - baseline < 60 << 20
    large = "torch.ones(200 << 20, dtype=torch.uint8)"
    with opened(server_of(servers, 1), order(top=large)) as child:
        pass
    assert child.exit is not None
    assert child.exit.peak_memory is not None
    assert 200 << 20 < child.exit.peak_memory - child.entered["baseline"] < 300 << 20


@pytest.mark.parametrize("level", [1, 3])
@pytest.mark.parametrize("how", ["finishes", "crashes", "hangs"])
def test_a_daemon_is_gone_within_two_seconds(
    servers: dict[int, ForkServer], how: str, level: int
) -> None:
    mark = f"daemon-{os.getpid()}-{how}-{level}"
    top = f"""
if not os.fork():
    os.setsid()
    if not os.fork():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.execv("/bin/sleep", ["{mark}", "60"])
    os._exit(0)
os.wait()
time.sleep(0.2)
"""
    ends = {"finishes": "", "crashes": "os._exit(1)", "hangs": "time.sleep(60)"}[how]
    server = server_of(servers, level)
    start = time.monotonic()
    try:
        with opened(server, order(top, ends)) as child:
            assert running(mark)
            start = time.monotonic()
            predict(child, seconds=1)
    except (ChildCrashed, ChildTimeout):
        assert how != "finishes"
    assert time.monotonic() - start < 1 + 2
    assert not running(mark)


def running(mark: str) -> bool:
    return any(mark in command for command in commands())


def commands() -> Iterator[str]:
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            yield Path(f"/proc/{pid}/cmdline").read_text()
        except (OSError, UnicodeDecodeError):
            continue  # it has just ended


def test_the_last_that_was_printed_is_kept(server: ForkServer) -> None:
    top = "print('x' * 300_000)\nprint('\\x1b[31mthe end')\nos._exit(4)"
    words = r"exit code 4\. It last printed: x+\n\?\[31mthe end"
    with pytest.raises(ChildCrashed, match=words), opened(server, order(top=top)):
        pass


CONTROLLER = """
import sys, time
from selectivbench.sandbox.controller import opened
from selectivbench.sandbox.launch import ForkServer, InProcess
from selectivbench.sandbox.levels import resolve
from tests.library.test_launch import order
server = ForkServer("cpu", frozenset(), resolve(sys.argv[1]))
top = 'os.execv("/bin/sleep", [%r, "60"])' % sys.argv[2]
with opened(server, order(top="if not os.fork(): " + top)):
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("level", ["1", "3"])
def test_a_killed_controller_leaves_no_process(level: str) -> None:
    wanted(int(level))
    mark = f"orphan-{os.getpid()}-{level}"
    command = [sys.executable, "-c", CONTROLLER, level, mark]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert running(mark)
        process.kill()
    deadline = time.monotonic() + 2
    while running(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not running(mark)


WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from selectivbench.record import Record
from selectivbench.store import RecordStore
record = Record.from_json(Path(sys.argv[1]).read_text())
store = RecordStore(Path(sys.argv[2]))
print("ready", flush=True)
for number in range(1_000_000):
    store.write(replace(record, cause=str(number) * 5_000))
"""


def test_a_killed_writer_tears_no_record(tmp_path: Path, a_record: Record) -> None:
    """Two writers of the same record, killed at odd moments: what is there can be read."""
    given, folder = tmp_path / "given.json", tmp_path / "records"
    given.write_text(a_record.to_json())
    command = [sys.executable, "-c", WRITER, str(given), str(folder)]
    for pause in (0.05, 0.11, 0.17):
        writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in "ab"]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        time.sleep(pause)
        for writer in writers:
            with writer:
                writer.kill()
        (file,) = folder.glob("*-v1-*.json")
        record = Record.from_json(file.read_text())
        assert replace(record, cause="") == a_record


@pytest.mark.parametrize(
    ("asked", "level", "name"),
    [("0", 0, "none"), ("none", 0, "none"), ("1", 1, "process"), ("process", 1, "process")],
)
def test_levels_have_numbers_and_names(asked: str, level: int, name: str) -> None:
    got = levels.resolve(asked)
    assert (got.level, got.name) == (level, name)
    assert str(got).startswith(f"{level} ({name}")


@pytest.mark.parametrize("asked", ["4", "-1", "sandbox", "", "landlok"])
def test_a_level_that_there_is_none_of(asked: str) -> None:
    with pytest.raises(UsageError, match="--selectiv-isolate: got"):
        levels.resolve(asked)


ALL_WELL = {"user": "", "landlock": "", "namespaces": ""}


@pytest.mark.parametrize(
    ("lacks", "highest"),
    [((), 3), (("namespaces",), 2), (("landlock",), 1), (("landlock", "namespaces"), 1)],
)
def test_a_level_that_cannot_be_had_is_refused_and_said(
    monkeypatch: pytest.MonkeyPatch, lacks: tuple[str, ...], highest: int
) -> None:
    found = ALL_WELL | dict.fromkeys(lacks, "not permitted")
    monkeypatch.setattr(levels, "probe", lambda: found)
    got = levels.resolve("highest")
    assert got.level == highest
    assert got.notes == tuple(f"no {name}: not permitted" for name in lacks)
    for level in range(highest + 1, 4):
        with pytest.raises(UsageError, match=f"{highest} or less on this machine; no "):
            levels.resolve(str(level))
    assert levels.resolve("1").level == 1


def test_root_without_another_user_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "probe", lambda: ALL_WELL | {"user": "/root is closed"})
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert levels.resolve("2").notes == ("runs as root: /root is closed",)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert levels.resolve("2").notes == ()
    assert not levels.resolve("2").user


def test_a_probe_that_dies_means_that_nothing_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert all(why.startswith("the probe failed") for why in levels.probe().values())


def test_what_is_refused_stops_the_child_before_the_submission(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(folder: str, locked: Any) -> None:
        raise OSError(f"level {locked.level} in {Path(folder).name}")

    monkeypatch.setattr(child, "enter", refused)
    ours, theirs = (Channel(sock) for sock in socket.socketpair())
    place = replace(order(top="raise ValueError('it ran')"), folder=str(tmp_path), level=2)
    ours.send("order", place.to_meta())
    child.serve(theirs)
    frame = ours.receive()
    assert (frame.kind, frame.meta["text"]) == ("error", f"OSError: level 2 in {tmp_path.name}")
    assert not list(tmp_path.iterdir())
    ours.close()
    theirs.close()


def test_rules_hold_no_way_to_answers_records_or_homes() -> None:
    rules = paths.rules("/tmp/a-childs-folder", "cpu")
    reading = [path for path, rights in rules.items() if rights & landlock.READ_FILE]
    for hidden in (paths.PACKAGE / "tasks", paths.PACKAGE / "seeds.py", paths.PACKAGE.parent):
        assert not [path for path in reading if hidden == path or hidden.is_relative_to(path)]
    assert Path("/") not in rules
    assert Path("/tmp") not in reading
    assert not [path for path, rights in rules.items() if rights & landlock.WRITE_FILE and
                not str(path).startswith(("/dev/", "/tmp/a-childs-folder"))]  # fmt: skip
    cuda = paths.rules("/tmp/a-childs-folder", "cuda")
    assert set(rules) <= set(cuda)


def test_below_leaves_out_whole_folders(tmp_path: Path) -> None:
    for name in ("a/x", "a/y", "b", "c/secret/deep"):
        (tmp_path / name).mkdir(parents=True)
    rules = landlock.below(tmp_path, landlock.READ, [tmp_path / "c/secret", tmp_path / "a/x"])
    assert rules == {
        tmp_path: landlock.LIST,
        tmp_path / "a": landlock.LIST,
        tmp_path / "a/y": landlock.READ,
        tmp_path / "b": landlock.READ,
        tmp_path / "c": landlock.LIST,
    }
    assert landlock.below(tmp_path, landlock.READ, []) == {tmp_path: landlock.READ}


def test_the_first_closed_folder_on_the_way(tmp_path: Path) -> None:
    inner = tmp_path / "closed" / "open"
    inner.mkdir(parents=True)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and not folder.stat().st_mode & 1:
            assert namespaces.closed_gate(inner) is not None
            return
    assert namespaces.closed_gate(inner) is None
    (tmp_path / "closed").chmod(0o700)
    assert namespaces.closed_gate(inner) == tmp_path / "closed"


def test_limits_leave_out_address_space_on_cuda() -> None:
    code = (
        "import resource; from selectivbench.sandbox.limits import limit;"
        "limit('cuda', 4000); print(resource.getrlimit(resource.RLIMIT_AS)[1])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == -1


def test_memory_in_files_without_a_name_counts() -> None:
    before = limits.unnamed([os.getpid()])
    file = os.memfd_create("hidden")
    os.write(file, bytes(8 << 20))
    twin = os.dup(file)
    assert limits.unnamed([os.getpid(), os.getpid()]) - before == 8 << 20
    os.close(twin)
    os.close(file)
    assert limits.unnamed([os.getpid()]) == before
    assert limits.unnamed([1 << 22]) == 0  # nobody has this number


FULL = """
import sys
from pathlib import Path
from selectivbench.errors import UsageError
from selectivbench.record import Record
from selectivbench.sandbox import namespaces
from selectivbench.store import RecordStore
import os
namespaces.enter()
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
namespaces.private()
record = Record.from_json(Path(sys.argv[1]).read_text())
namespaces.syscalls.mount("tmpfs", sys.argv[2], "tmpfs", 0, "size=128k")
store = RecordStore(Path(sys.argv[2]))
from dataclasses import replace
for seed in range(100):
    try:
        store.write(replace(record, identity=replace(record.identity, seed=seed)))
    except UsageError as error:
        found = [Record.from_json(p.read_text()) for p in Path(sys.argv[2]).glob("*.json")]
        print(seed, len(found), len(list(Path(sys.argv[2]).glob("*.tmp"))), error)
        break
"""


def test_a_full_disk_is_one_sentence_and_tears_no_record(tmp_path: Path, a_record: Record) -> None:
    if levels.resolve("highest").level < 3:
        pytest.skip("a small file system cannot be mounted here: no namespaces")
    (tmp_path / "record.json").write_text(a_record.to_json())
    (tmp_path / "disk").mkdir()
    command = [sys.executable, "-c", FULL, str(tmp_path / "record.json"), str(tmp_path / "disk")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seed, whole, parts, words = done.stdout.split(" ", 3)
    assert (int(seed), parts) == (int(whole), "0")
    assert int(seed) > 0
    assert "No space left on device" in words
    assert "a disk with room" in words


def test_a_folder_that_was_made_hard_to_remove_goes(tmp_path: Path) -> None:
    folder = tmp_path / "filled"
    deep = folder / "closed" / "x"
    deep.mkdir(parents=True)
    (folder / "link").symlink_to(tmp_path)
    deep.parent.chmod(0)
    sweep(str(folder))
    assert not folder.exists()
    assert tmp_path.exists()


def test_what_is_shown_cannot_command_a_terminal() -> None:
    assert printable("a\x1b[2J\r\0\u202eb\n\tc") == "a?[2J???b\n\tc"


@pytest.mark.parametrize(
    ("exit_", "text"),
    [
        (Exit(-signal.SIGSEGV), "it was ended by SIGSEGV"),
        (Exit(-9, cause="out of memory: 9 MiB, allowed: 8"), "out of memory: 9 MiB, allowed: 8"),
        (exit_of({"status": 3}), "it left with exit code 3"),
    ],
)
def test_an_exit_says_how(exit_: Exit, text: str) -> None:
    assert str(exit_) == text
    assert exit_.out_of_memory == text.startswith("out of memory")


def test_the_module_path_leads_nowhere_relative(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([".", "", "lib", str(tmp_path), "/opt/ours"]))
    assert environment()["PYTHONPATH"] == "/opt/ours"
    monkeypatch.setenv("PYTHONPATH", "")
    assert "PYTHONPATH" not in environment()


def test_the_levels_means_begin_where_they_say() -> None:
    assert levels.NAMES[confine.LANDLOCK] == "landlock"
    assert levels.NAMES[confine.NAMESPACES] == "namespaces"
