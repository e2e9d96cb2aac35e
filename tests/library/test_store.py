"""The folder of records: atomic, locked, honest about why a record is or is not re-used."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from select import select
from typing import Any

import pytest

from selectivbench.errors import UsageError
from selectivbench.record import REUSED, STATUSES, Finding, Record
from selectivbench.store import RecordStore


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(tmp_path / "deep" / "records")


def test_a_written_record_is_found_again(store: RecordStore, a_record: Record) -> None:
    assert store.write(a_record) == a_record
    assert store.path(a_record.identity).is_file()
    found = store.find(a_record.identity)
    assert found.record == a_record
    assert found.reason == "same submission, budget and environment"


def test_the_verdict_is_judged_anew(store: RecordStore, a_record: Record) -> None:
    store.write(replace(a_record, score=0.1, status="pass"))
    found = store.find(a_record.identity).record
    assert found is not None
    assert found.status == "fail"


@pytest.mark.parametrize("status", sorted(set(STATUSES) - set(REUSED)))
def test_a_case_that_did_not_finish_is_tried_again(
    store: RecordStore, a_record: Record, status: Any
) -> None:
    store.write(replace(a_record, status=status, score=None))
    found = store.find(a_record.identity)
    assert found.record is None
    assert found.reason == f"the last try ended in {status}"


def test_invalid_is_re_used(store: RecordStore, a_record: Record) -> None:
    store.write(replace(a_record, status="invalid", score=None))
    assert store.find(a_record.identity).record is not None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"seed": 2}, "no record yet"),
        ({"entry": "gru"}, "no record yet"),
        ({"task": "other-v1"}, "no record yet"),
        (
            {"source_sha256": "cd" * 32},
            "no record yet; an older one differs in source_sha256",
        ),
        (
            {"budget_digest": "x", "environment_digest": "y"},
            "no record yet; an older one differs in budget_digest, environment_digest",
        ),
    ],
)
def test_a_miss_says_why(
    store: RecordStore, a_record: Record, change: dict[str, Any], reason: str
) -> None:
    store.write(a_record)
    assert store.find(replace(a_record.identity, **change)).reason == reason


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"", b"[]", b'{"schema": 2}'])
def test_a_corrupt_record_is_moved_aside(
    store: RecordStore, a_record: Record, content: bytes
) -> None:
    path = store.path(a_record.identity)
    path.write_bytes(content)
    found = store.find(a_record.identity)
    assert found.record is None
    assert "the record was corrupt" in found.reason
    assert not path.exists()
    aside = path.with_suffix(".corrupt")
    assert aside.name in found.reason
    assert aside.read_bytes() == content


def test_a_record_under_anothers_name_is_corrupt(store: RecordStore, a_record: Record) -> None:
    other = replace(a_record, identity=replace(a_record.identity, seed=2))
    store.path(a_record.identity).write_text(other.to_json())
    assert "does not belong to its file name" in store.find(a_record.identity).reason


def test_a_corrupt_neighbour_does_not_hide_the_reason(store: RecordStore, a_record: Record) -> None:
    store.path(replace(a_record.identity, variant="base", budget_digest="x")).write_text("{")
    assert store.find(a_record.identity).reason == "no record yet"


def test_older_records_are_ignored_when_asked(tmp_path: Path, a_record: Record) -> None:
    (store := RecordStore(tmp_path)).write(a_record)
    path = store.path(a_record.identity)
    os.utime(path, (1_000, 1_000))
    assert RecordStore(tmp_path, fresh_after=1_001).find(a_record.identity).reason == (
        "asked to run again"
    )
    assert RecordStore(tmp_path, fresh_after=1_000).find(a_record.identity).record == a_record


def test_a_failed_write_leaves_the_old_record_and_no_litter(
    store: RecordStore, a_record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(a_record)
    path = store.path(a_record.identity)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="No space"):
        store.write(replace(a_record, score=0.5))
    assert Record.from_json(path.read_text()) == a_record
    assert not list(store.folder.glob("*.tmp"))


def test_a_reader_never_sees_a_part(
    store: RecordStore, a_record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new text is on the disk, whole, before it takes the record's name."""
    path = store.path(a_record.identity)
    seen = []

    def looking(old: str, new: Path) -> None:
        seen.append((path.exists(), Path(old).read_text() == a_record.to_json(), new == path))

    monkeypatch.setattr(os, "replace", looking)
    store.write(a_record)
    assert seen == [(False, True, True)]


def test_sources_are_kept_once_under_their_digest(store: RecordStore) -> None:
    store.write_source("ab", "x = 'é'\n")
    store.write_source("ab", "other")
    assert (store.folder / "sources" / "ab.py").read_text(encoding="utf-8") == "x = 'é'\n"


HOLDER = """
import os, sys
from pathlib import Path
from selectivbench.store import RecordStore
store = RecordStore(Path(sys.argv[1]))
os.write(1, b"wants\\n")
with store.lock("key"):
    os.write(1, b"holds\\n")
    sys.stdin.read()
"""


def test_the_lock_holds_across_processes_and_falls_with_its_holder(store: RecordStore) -> None:
    command = [sys.executable, "-c", HOLDER, str(store.folder)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
    with subprocess.Popen(command, **pipes) as first, subprocess.Popen(command, **pipes) as second:
        assert first.stdout is not None
        assert second.stdout is not None
        for process in (first, second):
            assert process.stdout.readline() == b"wants\n"  # type: ignore[union-attr]
        (holder,), *_ = select([first.stdout, second.stdout], [], [], 10)
        assert holder.readline() == b"holds\n"
        assert select([first.stdout, second.stdout], [], [], 0.3)[0] == []
        dying, waiting = (first, second) if holder is first.stdout else (second, first)
        dying.kill()
        assert dying.wait() == -9
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == b"holds\n"
        waiting.communicate()


def test_locks_of_different_trainings_do_not_wait_for_each_other(store: RecordStore) -> None:
    with store.lock("a"), store.lock("b"):
        assert {p.name for p in (store.folder / "locks").iterdir()} == {"a.lock", "b.lock"}


@pytest.mark.parametrize("below", ["", "records", "a/b"])
def test_an_unwritable_folder_is_a_usage_error(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UsageError, match=r"records folder: got .*allowed: a folder one can write"):
        RecordStore(file / below)


HOLDS = Finding("causality", True, "largest change before a cut 0, allowed: 0.0001")
BROKEN = Finding("causality", False, "largest change before a cut 2, allowed: 0.0001")
OTHER = Finding("determinism", True, "largest difference of two trainings 0, allowed: 0")


@pytest.mark.parametrize("first", ["finding", "record"])
def test_a_finding_reaches_the_record_whichever_comes_first(
    store: RecordStore, a_record: Record, first: str
) -> None:
    """Other tasks, seeds and budgets of the same file share its findings."""
    second = replace(a_record.identity, task="noisy_gaps-v2", seed=3, budget_digest="c" * 24)
    if first == "record":
        store.write(a_record)
    for finding in (OTHER, BROKEN):
        store.note(second, finding)
    if first == "finding":
        assert store.write(a_record).status == "invalid"
    kept = Record.from_json(store.path(a_record.identity).read_text())
    assert kept.validity == (BROKEN, OTHER)
    assert kept.status == "invalid"
    assert kept.cause == f"causality does not hold: {BROKEN.text}."
    assert kept.score == a_record.score  # nothing that was computed is lost
    assert store.find(a_record.identity).record == kept


def test_a_finding_that_is_made_again_replaces_the_old_one(
    store: RecordStore, a_record: Record
) -> None:
    store.write(a_record)
    store.note(a_record.identity, BROKEN)
    store.note(a_record.identity, HOLDS)
    assert store.find(a_record.identity).record == replace(a_record, validity=(HOLDS,))


def test_a_finding_does_not_make_a_record_look_new(store: RecordStore, a_record: Record) -> None:
    """``--selectiv-rerun`` trains again whatever was not trained since it began."""
    store.write(a_record)
    path = store.path(a_record.identity)
    os.utime(path, (1_000, 1_000))
    store.note(a_record.identity, OTHER)
    assert path.stat().st_mtime == 1_000
    assert Record.from_json(path.read_text()).validity == (OTHER,)


@pytest.mark.parametrize(
    "change",
    [
        {"source_sha256": "cd" * 32},
        {"profile": "paper"},
        {"device_class": "cuda"},
        {"environment_digest": "f" * 24},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_finding_is_about_one_file_profile_and_environment(
    store: RecordStore, a_record: Record, change: dict[str, str]
) -> None:
    store.note(replace(a_record.identity, **change), BROKEN)  # type: ignore[arg-type]
    assert store.write(a_record) == a_record


def test_findings_of_an_unreadable_file_are_made_again(
    store: RecordStore, a_record: Record
) -> None:
    store.note(a_record.identity, BROKEN)
    (path,) = (store.folder / "validity").glob("*.json")
    for text in ("", "[]", '{"findings": [{"check": 1}]}', '{"findings": 3}'):
        path.write_text(text)
        assert store.findings(a_record.identity) == ()
    store.note(a_record.identity, HOLDS)
    assert store.findings(a_record.identity) == (HOLDS,)


NOTE = """
import sys
from pathlib import Path
from selectivbench.record import Finding, Record
from selectivbench.store import RecordStore
store = RecordStore(Path(sys.argv[1]))
record = Record.from_json(Path(sys.argv[2]).read_text())
for number in range(20):
    store.note(record.identity, Finding(f"check-{sys.argv[3]}-{number:02d}", True, "fine"))
    store.write(record)
"""


def test_two_runs_that_note_and_write_at_once_lose_nothing(
    store: RecordStore, a_record: Record, tmp_path: Path
) -> None:
    (tmp_path / "record.json").write_text(a_record.to_json())
    words = [str(store.folder), str(tmp_path / "record.json")]
    command = [sys.executable, "-c", NOTE, *words]
    runs = [subprocess.Popen([*command, name]) for name in ("a", "b")]
    assert [run.wait(60) for run in runs] == [0, 0]
    found = store.find(a_record.identity).record
    assert found is not None
    assert len(found.validity) == 40
