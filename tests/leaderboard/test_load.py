"""Good records come back whole; a bad one is refused with file and reason, and stops no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leaderboard.load import frame, load, record_files
from selectivbench.anatomy import Anatomy, Facet, Mistake
from selectivbench.errors import UsageError
from selectivbench.record import Finding, Record
from selectivbench.thresholds import Bar
from tests.leaderboard import made


def no_bars(_task: str, _profile: str, _variant: str) -> None:
    return None


def bar_at(value: float) -> Any:
    return lambda task, profile, variant: Bar(task, profile, variant, value, 0.02, True, "test")


def change(path: Path, at: tuple[str, ...], value: Any) -> None:
    data = json.loads(path.read_text(encoding="utf-8"))
    inner = data
    for name in at[:-1]:
        inner = inner[int(name) if name.isdigit() else name]
    inner[at[-1]] = value
    path.write_text(json.dumps(data), encoding="utf-8")


def test_every_record_is_loaded_with_its_curve_left_in_the_file(tmp_path: Path) -> None:
    records = made.suite("lstm", 0.9)
    loaded = load([made.write(tmp_path, records)], no_bars)
    assert loaded.refused == ()
    assert [c.record.identity for c in loaded.cases] == sorted(
        (r.identity for r in records), key=lambda i: i.stem
    )
    assert all(c.record.curve == () for c in loaded.cases)
    assert len(loaded.cases[0].curve()) == 4


def test_anatomies_are_left_in_the_file_and_added_up_over_splits(tmp_path: Path) -> None:
    folder = made.write(tmp_path, [made.record(task="gap_extrapolation-v2"), made.record()])
    path = next(folder.glob("*gap_*.json"))
    for split in ("0", "2"):
        change(path, ("evaluations", split, "anatomy"), dissected())
    gaps, copy = load([folder], no_bars).cases
    assert [e.anatomy for e in gaps.record.evaluations] == [None] * 3
    assert gaps.anatomy() == Anatomy(
        (Facet("memory", ("1",), (4,), (2,), (4,)),), 2, 2, (Mistake("A0", "A1", 2),)
    )
    assert copy.anatomy() is None
    assert gaps.whole() == Record.from_json(path.read_text())


@pytest.mark.parametrize(
    ("status", "score", "bar", "wanted"),
    [
        ("fail", 0.9, 0.8, "pass"),
        ("pass", 0.7, 0.8, "fail"),
        ("pass", 0.8, 0.8, "pass"),
        ("timeout", None, 0.8, "timeout"),
        ("invalid", 0.9, 0.8, "invalid"),
    ],
)
def test_the_verdict_is_recomputed_from_score_and_bar(
    tmp_path: Path, status: str, score: float | None, bar: float, wanted: str
) -> None:
    folder = made.write(tmp_path, [made.record(score=score, status=status)])
    (case,) = load([folder], bar_at(bar)).cases
    assert case.record.status == wanted


def test_a_check_that_does_not_hold_makes_a_result_invalid(tmp_path: Path) -> None:
    broken = Finding("causality", False, "change 2, allowed: 0.0001")
    made.write(tmp_path, [made.record(score=0.99, validity=(broken,))])
    (case,) = load([tmp_path]).cases
    assert (case.record.status, case.record.cause) == ("invalid", f"{broken}.")


def test_what_lies_beside_the_records_is_none(tmp_path: Path) -> None:
    made.write(tmp_path, [made.record()])
    for name in ("session", "validity", "audits"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "some.json").write_text("{}", encoding="utf-8")
    assert [path.parent for path in record_files(tmp_path)] == [tmp_path]


def test_without_a_bar_the_recorded_verdict_stays(tmp_path: Path) -> None:
    folder = made.write(tmp_path, [made.record(status="fail", score=0.99)])
    assert load([folder], no_bars).cases[0].record.status == "fail"


ANATOMY = ("evaluations", "0", "anatomy")
MISTAKE = {"asked": "A0", "answered": "A1", "count": 1}


def dissected(**changes: Any) -> dict[str, Any]:
    """An anatomy in a record, changed."""
    facet = {"by": "memory", "bins": ("1",), "counts": (2,), "rights": (1,), "best": (2,)}
    whole = {"wrong": 1, "rivals": 1, "mistakes": [MISTAKE]}
    facet |= {
        name: value if name == "by" else list(value)
        for name, value in changes.items()
        if name in facet
    }
    whole |= {name: value for name, value in changes.items() if name in whole}
    return {**whole, "facets": [facet]}


HOSTILE: dict[str, tuple[tuple[str, ...], Any, str]] = {
    "path in entry": (("identity", "entry"), "../../etc/passwd", "identity.entry"),
    "hidden file": (("identity", "entry"), ".profile", "identity.entry"),
    "markup in entry": (("identity", "entry"), "<img src=x onerror=alert(1)>", "identity.entry"),
    "slash in task": (("identity", "task"), "a/b-v1", "identity.task"),
    "no version": (("identity", "task"), "selective_copy", "identity.task"),
    "path in variant": (("identity", "variant"), "..", "identity.variant"),
    "newline in device": (("identity", "device_class"), "cpu\n", "identity.device_class"),
    "path in sha": (("identity", "source_sha256"), "../" * 20, "identity.source_sha256"),
    "other id": (("entry", "id"), "gru", "entry.id"),
    "unknown kind": (("entry", "kind"), "robot", "kind"),
    "name is no text": (("entry", "name"), ["x"], "name"),
    "endless tag": (("entry", "tags"), ["x" * 81], "entry.tags"),
    "huge parameters": (("parameters",), 10**400, "parameters"),
    "negative parameters": (("parameters",), -1, "parameters"),
    "parameters as text": (("parameters",), "many", "parameters"),
    "huge time": (("seconds", "fit"), 1e300, "seconds.fit"),
    "negative time": (("seconds", "fit"), -1, "seconds.fit"),
    "accuracy above 1": (("accuracy",), 1.5, "accuracy"),
    "accuracy as text": (("accuracy",), "0.9", "accuracy"),
    "better than its accuracy": (("score",), 3.0, "score"),
    "future schema": (("schema",), 2, "schema"),
    "unknown status": (("status",), "won", "status"),
    "unknown field": (("extra",), 1, "unknown fields"),
    "seed is a truth": (("identity", "seed"), True, "seed"),
    "flood": (("cause",), "x" * 20_001, "20001 characters"),
    "half a surrogate": (("cause",), "\ud800", "surrogate"),
    "no moment": (("created",), "yesterday", "created"),
    "curve of texts": (("curve",), [{"step": "1", "loss": "x"}], "step"),
    "huge loss": (("curve",), [{"step": 1, "loss": 1e300}], "curve"),
    "negative step": (("curve",), [{"step": -1, "loss": 1.0}], "curve"),
    "huge split": (("evaluations",), [{"split": "a", "accuracy": 1e99, "floor": 0, "ceiling": 1}],
                   "evaluations"),
    "empty split": (("evaluations",), [dict.fromkeys(("split", "accuracy", "floor", "ceiling"))],
                       "split"),
    "more right than there are": (ANATOMY, dissected(rights=(3,)), "facet memory"),
    "fewer than none": (ANATOMY, dissected(best=(-1,)), "facet memory"),
    "bins without counts": (ANATOMY, dissected(counts=()), "facet memory"),
    "a bin twice": (ANATOMY, dissected(bins="11", counts=(2, 2), rights=(1, 1), best=(2, 2)),
                    "facet memory"),
    "a facet that is a format": (ANATOMY, dissected(by="{0.__class__}"), "facet"),
    "a bin of too many digits": (ANATOMY, dissected(bins=("9" * 5_000,)), "facet memory"),
    "stopped where no number is": (("stopped_at",), 10**30, "stopped_at"),
    "a seed that is no number": (("identity", "seed"), 10**30, "seed"),
    "more rivals than errors": (ANATOMY, dissected(rivals=3), "anatomy"),
    "a mistake never made": (ANATOMY, dissected(mistakes=[{**MISTAKE, "count": 0}]), "mistakes"),
    "mistakes without end": (ANATOMY, dissected(mistakes=[MISTAKE] * 17), "anatomy"),
    "a flood of a class": (ANATOMY, dissected(mistakes=[{**MISTAKE, "asked": "x" * 20_001}]),
                           "20001 characters"),
    "check with markup": (("validity",), [{"check": "<b>", "ok": True, "text": ""}], "check"),
    "flood of findings": (("validity",), [{"check": "a", "ok": True, "text": ""}] * 41, "at most 40"),
    "flood in a finding": (("validity",), [{"check": "a", "ok": True, "text": "x" * 20_001}],
                           "20001 characters"),
    "seconds as a list": (("seconds",), [], "seconds"),
    "sizes of its own": (("custom",), {"width": 64}, "sizes of one's own"),
    "huge in machine": (("machine", "cores"), 10**30, "machine.cores"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_record_is_refused_and_the_rest_loads(tmp_path: Path, case: str) -> None:
    at, value, told = HOSTILE[case]
    bad = made.record("lstm")
    folder = made.write(tmp_path, [bad, made.record("gru")])
    change(folder / f"{bad.identity.stem}.json", at, value)
    loaded = load([folder], no_bars)
    assert [c.record.identity.entry for c in loaded.cases] == ["gru"]
    (refusal,) = loaded.refused
    assert refusal.file == f"{bad.identity.stem}.json"
    assert told in refusal.reason
    assert len(refusal.reason) <= 500


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "JSONDecodeError"),
        ("[]", "object"),
        ("{}", "schema"),
        ('{"score": NaN}', "NaN"),
        ("[" * 100_000, "RecursionError"),
        ("1" * 5_000, "not a record"),
        (" " * (4 * 2**20 + 1), "file size"),
    ],
    ids=["empty", "list", "nothing", "nan", "deep", "long number", "large"],
)
def test_text_that_is_no_record_is_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "bad.json").write_text(text, encoding="utf-8")
    loaded = load([made.write(tmp_path, [made.record()])], no_bars)
    assert len(loaded.cases) == 1
    assert [told in r.reason for r in loaded.refused] == [True], loaded.refused


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_bytes(b"\xff\xfe")
    assert [r.file for r in load([tmp_path], no_bars).refused] == ["bad.json"]


def test_a_renamed_record_is_refused(tmp_path: Path) -> None:
    made_record = made.record()
    folder = made.write(tmp_path, [made_record])
    (folder / f"{made_record.identity.stem}.json").rename(folder / "lstm.json")
    (refusal,) = load([folder], no_bars).refused
    assert f"{made_record.identity.stem}.json" in refusal.reason


def test_a_duplicate_is_refused(tmp_path: Path) -> None:
    made.write(tmp_path / "a", [made.record()])
    made.write(tmp_path / "b", [made.record()])
    loaded = load([tmp_path], no_bars)
    assert len(loaded.cases) == 1
    assert "duplicate" in loaded.refused[0].reason
    assert loaded.refused[0].file.startswith("b/")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    folder = made.write(tmp_path / "real", [made.record()])
    (link := tmp_path / "linked").mkdir()
    target = next(folder.glob("*.json"))
    (link / target.name).symlink_to(target)
    assert "link" in load([link], no_bars).refused[0].reason


def test_a_missing_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"records folder: got .*nowhere"):
        load([tmp_path / "nowhere"], no_bars)


def test_a_source_is_given_only_where_its_sha_is_right(tmp_path: Path) -> None:
    folder = made.write(tmp_path, [made.record("lstm")])
    sha = made.sha(made.source_of("lstm"))
    assert load([folder], no_bars).source(sha) == made.source_of("lstm")
    (folder / "sources" / f"{sha}.py").write_text("import os", encoding="utf-8")
    assert load([folder], no_bars).source(sha) is None
    assert load([folder], no_bars).source("0" * 64) is None


def test_frame_has_a_row_for_each_record_and_keeps_missing_figures_missing(tmp_path: Path) -> None:
    records = [*made.suite("lstm", 0.9), made.record("gru", score=None, status="timeout")]
    table = frame(made.write(tmp_path, records))
    assert len(table) == 13
    assert table.loc[table.entry == "gru", "score"].isna().all()
    assert table.loc[table.entry == "lstm", "score"].mean() == pytest.approx(0.9)


def test_what_the_last_run_expected_and_did_not_write_is_told(tmp_path: Path) -> None:
    here, gone = made.record("lstm"), made.record("gru")
    folder = made.write(tmp_path, [here])
    (folder / "session").mkdir()
    expected = {"lstm.py::x[seed1]": here.identity.stem, "gru.py::x[seed1]": gone.identity.stem}
    (folder / "session" / "manifest.json").write_text(json.dumps(expected), encoding="utf-8")
    loaded = load([folder], no_bars)
    assert len(loaded.cases) == 1
    (refusal,) = loaded.refused
    assert refusal.file == f"{gone.identity.stem}.json"
    assert "missing" in refusal.reason
    assert "gru.py::x[seed1]" in refusal.reason


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": {"b": 1}}'])
def test_a_broken_manifest_stops_nothing(tmp_path: Path, text: str) -> None:
    folder = made.write(tmp_path, [made.record()])
    (folder / "session").mkdir()
    (folder / "session" / "manifest.json").write_text(text, encoding="utf-8")
    assert len(load([folder], no_bars).cases) == 1
