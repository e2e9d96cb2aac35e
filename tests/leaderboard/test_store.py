"""``add`` copies what is good with its source, and refuses the rest."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leaderboard.audits import take_in
from leaderboard.load import load
from leaderboard.store import add
from selectivbench.audited import Audited
from selectivbench.errors import UsageError
from tests.leaderboard import made


def names(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def test_records_and_sources_are_copied(tmp_path: Path) -> None:
    run = made.write(tmp_path / "run", made.suite("lstm", 0.9))
    added = add([run], tmp_path / "results")
    assert len(added.new) == 12
    assert added.refused == ()
    assert names(tmp_path / "results") == names(run)
    assert load([tmp_path / "results"]).source(made.sha(made.source_of("lstm"))) is not None


def test_a_single_file_can_be_added_and_adding_twice_changes_nothing(tmp_path: Path) -> None:
    run = made.write(tmp_path / "run", [made.record()])
    (path,) = run.glob("*.json")
    assert add([path], tmp_path / "results").new == (path.stem,)
    again = add([path], tmp_path / "results")
    assert (again.new, again.same, again.refused) == ((), (path.stem,), ())


def test_a_newer_record_replaces_and_an_older_one_is_refused(tmp_path: Path) -> None:
    new = made.write(tmp_path / "new", [made.record(created="2026-05-01T00:00:00+00:00")])
    old = made.write(tmp_path / "old", [made.record(created="2026-01-01T00:00:00+00:00")])
    results = tmp_path / "results"
    add([old], results)
    assert len(add([new], results).new) == 1
    refused = add([old], results).refused
    assert "newer" in refused[0].reason
    (kept,) = load([results]).cases
    assert kept.moment.startswith("2026-05-01")


def test_an_unverified_record_never_replaces_a_verified_one(tmp_path: Path) -> None:
    checked = made.write(tmp_path / "a", [made.record(verified=True)])
    claimed = made.write(tmp_path / "b", [made.record(created="2027-01-01T00:00:00+00:00")])
    results = tmp_path / "results"
    add([checked], results)
    assert "verified" in add([claimed], results).refused[0].reason
    assert load([results]).cases[0].record.verified


@pytest.mark.parametrize("harm", ["gone", "changed", "link"])
def test_without_its_right_source_a_record_is_refused(tmp_path: Path, harm: str) -> None:
    run = made.write(tmp_path / "run", [made.record()])
    (source,) = (run / "sources").iterdir()
    if harm == "changed":
        source.write_text("pass", encoding="utf-8")
    else:
        moved = shutil.move(source, tmp_path / "elsewhere.py")
        if harm == "link":
            source.symlink_to(moved)
    added = add([run], tmp_path / "results")
    assert added.new == ()
    assert "sha256" in added.refused[0].reason or "source" in added.refused[0].reason
    assert not (tmp_path / "results").exists()


def test_one_bad_record_stops_no_other(tmp_path: Path) -> None:
    run = made.write(tmp_path / "run", [made.record()])
    (run / "bad.json").write_text("{}", encoding="utf-8")
    added = add([run], tmp_path / "results")
    assert (len(added.new), len(added.refused)) == (1, 1)


def test_a_path_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="existing file or folder"):
        add([tmp_path / "nowhere"], tmp_path / "results")


def test_the_verified_mark_is_set_only_when_it_is_asked_for(tmp_path: Path) -> None:
    guarded = made.record(isolation="namespaces", validity=made.CHECKED)
    run = made.write(tmp_path / "run", [guarded])
    add([run], tmp_path / "plain")
    add([run], tmp_path / "marked", verified=True)
    (plain,) = load([tmp_path / "plain"]).cases
    (marked,) = load([tmp_path / "marked"]).cases
    assert (plain.record.verified, marked.record.verified) == (False, True)
    assert marked.curve() == plain.curve() != ()
    assert names(tmp_path / "plain") == names(tmp_path / "marked")


def test_a_copy_has_the_bytes_of_the_record(tmp_path: Path) -> None:
    run = made.write(tmp_path / "run", [made.record()])
    (path,) = run.glob("*.json")
    add([run], tmp_path / "results")
    assert (tmp_path / "results" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("device", "fields", "refused"),
    [
        ("cpu", {"isolation": "none"}, "isolation: got 'none'"),
        ("cpu", {"isolation": "process"}, "isolation: got 'process'"),
        ("cpu", {"isolation": "landlock"}, "allowed: namespaces for the verified mark"),
        ("NVIDIA H200", {"isolation": "landlock"}, ""),
        ("NVIDIA H200", {"isolation": "process"}, "allowed: landlock or namespaces"),
        ("cpu", {"validity": ()}, "none of batch-independence, causality"),
        ("cpu", {"validity": made.CHECKED[1:]}, "none of batch-independence'"),
        ("cpu", {"validity": (), "score": None, "status": "crash"}, ""),
    ],
)
def test_what_the_mark_asks_for(
    tmp_path: Path, device: str, fields: dict[str, Any], refused: str
) -> None:
    whole = {"isolation": "namespaces", "validity": made.CHECKED, **fields}
    name = device.replace(" ", "-")
    run = made.write(tmp_path / "run", [made.record(device=name, **whole)])
    added = add([run], tmp_path / "results", verified=True)
    assert [refused in refusal.reason for refusal in added.refused] == [True] * bool(refused)
    assert len(added.new) == (not refused)
    assert len(add([run], tmp_path / "plain").new) == 1


def test_an_audit_is_taken_in_beside_what_its_salt_gave_before(tmp_path: Path) -> None:
    first, second = (made.gap(made.record(entry), 0.9, 0.85) for entry in ("gru", "lstm"))
    newer = replace(first, audit=0.2)
    results, path = tmp_path / "results", tmp_path / "audit.json"
    for gaps in ((first,), (second, newer)):
        path.write_text(Audited("ab" * 32, "namespaces", gaps).to_json(), encoding="utf-8")
        assert take_in(path, results) == len(gaps)
    (audit,) = load([results]).audits
    assert audit.gaps == (newer, second)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"commitment": "../x", "isolation": "a", "gaps": []}'],
)
def test_what_is_no_audit_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "audits").mkdir()
    path = tmp_path / "audits" / "audit.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="--audit"):
        take_in(path, tmp_path / "results")
    (refused,) = load([tmp_path]).refused
    assert refused.file == "audits/audit.json"
    assert "not an audit" in refused.reason


def test_the_folder_of_an_audit_is_not_published(tmp_path: Path) -> None:
    run = made.write(tmp_path / "audit", [made.record()])
    (run / "audit.json").write_text("{}")
    for path in (run, tmp_path, *run.glob("lstm-*.json")):
        with pytest.raises(UsageError, match="keeps the seeds secret"):
            add([path], tmp_path / "results")
        assert not (tmp_path / "results").exists()
