"""What the site publishes for other programs: JSON with its schema, CSV, parquet, feed, badges."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from leaderboard import schema
from leaderboard.load import frame
from leaderboard.render import build
from tests.leaderboard import made

ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = made.write(
        tmp_path / "records",
        [
            *made.suite("lstm", 0.9, about={"name": "=cmd|' /C calc'!A0", "tags": ("rnn", "x")}),
            *made.suite("lstm", 0.5, source="old", created="2025-01-01T00:00:00+00:00"),
            made.record("gru", score=None, status="oom", cause="the child\x0b died"),
        ],
    )
    (folder / "bad.json").write_text("{}", encoding="utf-8")
    build([folder], tmp_path / "site")
    return tmp_path / "site"


def test_the_json_follows_its_published_schema(site: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    published = json.loads((site / "results.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(published)
    results = json.loads((site / "results.json").read_text(encoding="utf-8"))
    jsonschema.validate(results, published)
    assert [len(results[k]) for k in ("standings", "records", "refused")] == [2, 25, 1]
    del results["standings"][0]["rank"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(results, published)


def test_missing_values_are_null_and_empty_never_zero(site: Path) -> None:
    results = json.loads((site / "results.json").read_text(encoding="utf-8"))
    (gru,) = [s for s in results["standings"] if s["entry"] == "gru"]
    assert gru["overall"] is None
    assert gru["rank"] is None
    assert gru["tasks"][0]["score"] is None
    rows = list(csv.DictReader(io.StringIO((site / "results.csv").read_text(encoding="utf-8"))))
    (row,) = [r for r in rows if r["entry"] == "gru"]
    assert row["score"] == row["accuracy"] == ""


def test_no_cell_of_the_csv_is_a_formula(site: Path) -> None:
    rows = list(csv.DictReader(io.StringIO((site / "results.csv").read_text(encoding="utf-8"))))
    names = {r["name"] for r in rows if r["entry"] == "lstm"}
    assert "'=cmd|' /C calc'!A0" in names
    for row in rows:
        assert not [v for v in row.values() if v[:1] in ("=", "@", "+")]


def test_the_parquet_holds_the_same_table_as_the_loader(site: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pandas as pd

    stored = pd.read_parquet(site / "results.parquet")
    loaded = frame(tmp_path / "records")
    assert list(stored.columns) == list(loaded.columns)
    pd.testing.assert_frame_equal(stored.astype(loaded.dtypes.to_dict()), loaded)
    assert stored.loc[stored.entry == "gru", "score"].isna().all()


def test_without_pyarrow_the_site_has_no_parquet_and_does_not_promise_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "find_spec", lambda _: None)
    folder = made.write(tmp_path / "records", [made.record()])
    build([folder], tmp_path / "site")
    assert not (tmp_path / "site/results.parquet").exists()
    data = (tmp_path / "site/data.html").read_text(encoding="utf-8")
    assert 'href="results.parquet"' not in data


def test_the_feed_is_atom_with_the_times_of_the_records(site: Path) -> None:
    feed = ET.parse(site / "feed.xml").getroot()
    assert feed.tag == f"{ATOM}feed"
    entries = feed.findall(f"{ATOM}entry")
    updated = [e.findtext(f"{ATOM}updated") for e in entries]
    assert updated == sorted(updated, key=str, reverse=True)
    assert feed.findtext(f"{ATOM}updated") == updated[0] == "2026-03-01T10:00:00Z"
    ids = [e.findtext(f"{ATOM}id") for e in entries]
    assert len(set(ids)) == len(ids) == 3
    titles = " ".join(e.findtext(f"{ATOM}title") or "" for e in entries)
    assert "superseded" in titles
    assert "rank 1" in titles


def test_a_badge_says_rank_or_progress(site: Path) -> None:
    badge = ET.parse(site / "badges/lstm.svg").getroot()
    assert "0.900, rank 1" in (badge.get("aria-label") or "")
    other = ET.parse(site / "badges/gru.svg").getroot()
    assert "0 of 1 tasks passed" in (other.get("aria-label") or "")
