"""Timings beside the records: which are used, what pages show of them, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leaderboard import timing_page
from leaderboard.__main__ import main
from leaderboard.load import load
from leaderboard.rank import Standing, standings
from leaderboard.render import build
from leaderboard.store import add
from leaderboard.timing_page import Timed, page, shown, timed
from selectivbench.store import TIMINGS
from selectivbench.times import Timing
from tests.leaderboard import made
from tests.leaderboard.made_timings import grown, timing, write


@pytest.fixture
def records(tmp_path: Path) -> Path:
    folder = made.write(tmp_path / "records", [*made.suite("lstm", 0.9), *made.suite("s4d", 0.4)])
    return write(folder, [*grown(), *grown(what="forward", power=2.0)])


def test_a_timing_survives_its_file(records: Path) -> None:
    found = load([records])
    assert not found.refused
    assert {t.stem: t for t in found.timings} == {
        t.stem: t for t in (*grown(), *grown(what="forward", power=2.0))
    }


def test_an_entry_shows_its_own_and_the_newest(records: Path) -> None:
    (lstm,) = (s for s in standings(load([records]).cases) if s.entry.id == "lstm")
    old = timing(busy=7.0, created="2026-03-01T10:00:00+00:00", key="cd" * 12)
    others = [
        timing("s4d"),
        timing(source_sha256="ab" * 32),
        timing(profile="paper"),
        timing(device_class="NVIDIA-H200"),
    ]
    own = [timing(what="decode"), timing(length=128), timing()]
    assert shown(lstm, [*others, *own, old]) == (own[2], own[1], own[0])
    assert timed(lstm, others) is None


def test_pages_show_the_table_the_growth_and_the_chart(tmp_path: Path, records: Path) -> None:
    out = tmp_path / "site"
    assert build([records], out).refused == ()
    text = (out / "entries" / "lstm.html").read_text(encoding="utf-8")
    for told in (
        "Speed of the layer",
        '<th scope="row">train</th><td class="num">64</td><td class="num">8</td>'
        '<td class="num">10 ms</td>\n<td class="num">51.2k</td><td class="num">2.00×</td>'
        '<td class="num">0.25×</td>',
        "3.0 MiB",
        "train: time of one sequence grows as T^1.00 (",
        "forward: time of one sequence grows as T^2.00 (",
        "T = 64, 128, 256",
    ):
        assert told in text, told
    assert "Speed of the layer" not in (out / "entries" / "s4d.html").read_text(encoding="utf-8")
    rows = (out / "charts" / "lstm-lite-cpu-speed.csv").read_text(encoding="utf-8").splitlines()
    assert rows[0].startswith("timed,length,batch,busy_seconds,tokens_per_busy_second,times_lstm,")
    assert len(rows) == 1 + 6
    overview = (out / "timing.html").read_text(encoding="utf-8")
    assert '<a href="entries/lstm.html">LSTM</a>' in overview
    assert "T^2.00" in overview
    assert "not shown" not in overview
    assert (out / "charts" / "speeds-lite-cpu.svg").is_file()


def test_what_is_not_shown_is_counted(records: Path) -> None:
    found = load([write(records, [timing("gone"), timing(source_sha256="ab" * 32, key="ef" * 12)])])
    assert page(standings(found.cases), found.timings)["unused"] == 2
    assert page((), ())["parts"] == []


def test_each_timing_is_looked_at_for_its_own_entry_only(
    tmp_path: Path, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(records, [timing("s4d")])
    looked: list[str] = []

    def counted(standing: Standing, timings: Sequence[Timing]) -> Timed | None:
        looked.extend(f"{standing.entry.id} at {t.entry}" for t in timings)
        return timed(standing, timings)

    monkeypatch.setattr(timing_page, "timed", counted)
    build([records], tmp_path / "site")
    assert Counter(looked) == {
        "lstm at lstm": 2 * 6,
        "s4d at s4d": 2,
    }  # its own page, and that of all


def test_a_new_timing_changes_the_page_of_its_entry(tmp_path: Path, records: Path) -> None:
    out = tmp_path / "site"
    build([records], out)
    assert build([records], out).written == ()
    write(records, [timing(length=512)])
    changed = set(build([records], out).written)
    assert {"entries/lstm.html", "timing.html"} <= changed
    assert "entries/s4d.html" not in changed


def test_nobody_is_ranked_by_them(records: Path) -> None:
    before = [(s.entry.id, s.rank) for s in standings(load([records]).cases)]
    write(records, [timing("s4d", busy=1e-9)])
    assert [(s.entry.id, s.rank) for s in standings(load([records]).cases)] == before


def test_adding_records_takes_their_timings_along(tmp_path: Path, records: Path) -> None:
    results = tmp_path / "results"
    added = add([records], results)
    assert (len(added.timings), added.refused) == (6, ())
    assert load([results]).timings == load([records]).timings
    assert add([records], results).timings == ()
    newer = replace(timing(), created="2026-04-01T10:00:00+00:00")
    write(records, [newer])
    assert add([records], results).timings == (newer.stem,)
    write(records, [timing()])  # the older one again
    assert add([records / TIMINGS / f"{newer.stem}.json"], results).timings == ()
    assert newer in load([results]).timings


def test_one_file_can_be_added_and_the_command_counts(
    tmp_path: Path, records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = records / TIMINGS / f"{timing().stem}.json"
    assert main(["add", str(file), "--results", str(tmp_path / "results")]) == 0
    assert "0 added, 0 there already, 0 refused, 1 timings added" in capsys.readouterr().out
    assert main(["check", str(records)]) == 0


HOSTILE: dict[str, tuple[tuple[str, ...], Any, str]] = {
    "a link": (("entry",), "../../x", "timing entry"),
    "markup": (("profile",), "<b>", "timing profile"),
    "no sha": (("source_sha256",), "abc", "timing source_sha256"),
    "no such work": (("what",), "sleep", "allowed: train, forward, decode"),
    "no length": (("length",), 0, "length: got '0'"),
    "a fraction": (("length",), 64.5, "timing length"),
    "a huge batch": (("batch",), 10**400, "batch: got 'a huge number'"),
    "no own layer": (("layers", "own"), None, "not a timing"),
    "a stranger": (("layers", "GRU"), "own", "layers"),
    "no rounds": (("layers", "own", "busy"), [], "rounds of each layer"),
    "fewer rounds": (("layers", "LSTM", "busy"), [1.0], "rounds of each layer"),
    "time that stands still": (("layers", "own", "busy"), [0.0, 1.0, 1.0], "longer than 0"),
    "no time to speak of": (("layers", "LSTM", "busy"), [5e-324] * 3, "1e-12 or more"),
    "time without end": (("layers", "own", "seconds"), [1e300] * 3, "seconds"),
    "memory as text": (("layers", "own", "memory"), "9", "timing memory"),
    "negative memory": (("layers", "LSTM", "memory"), -1, "0 to 1e+15, or null"),
    "another field": (("rank",), 1, "not a timing"),
    "a moment that is none": (("created",), "yesterday", "created"),
    "a flood": (("machine", "note"), "x" * 30_000, "30000 characters"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_timing_is_refused_and_the_rest_loads(records: Path, case: str) -> None:
    (where, value, told) = HOSTILE[case]
    path = records / TIMINGS / f"{timing().stem}.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    part = data
    for name in where[:-1]:
        part = part[name]
    part[where[-1]] = part["own"] if value == "own" else value
    path.write_text(json.dumps(data), encoding="utf-8")
    found = load([records])
    (refusal,) = found.refused
    assert refusal.file == f"{TIMINGS}/{path.name}"
    assert told in refusal.reason
    assert len(refusal.reason) <= 500
    assert len(found.timings) == 5


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"layers": 3}', "[" * 100_000])
def test_text_that_is_no_timing_is_refused(records: Path, text: str) -> None:
    (records / TIMINGS / "x.json").write_text(text, encoding="utf-8")
    (refusal,) = load([records]).refused
    assert refusal.reason.startswith("not a timing")


def test_a_renamed_timing_and_a_link_are_refused(records: Path) -> None:
    path = records / TIMINGS / f"{timing().stem}.json"
    (records / TIMINGS / "link.json").symlink_to(path)
    path.rename(records / TIMINGS / "renamed.json")
    reasons = [refusal.reason for refusal in load([records]).refused]
    assert len(reasons) == 2
    assert any("a link" in reason for reason in reasons)
