"""Where an entry is wrong: on its page, in its chart and CSV, and absent for records without."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

from leaderboard.render import build
from leaderboard.store import add
from selectivbench.anatomy import Anatomy, Facet, Mistake
from selectivbench.record import Record
from tests.leaderboard import made

FACET = Facet("memory", ("1", "2", "3", "9+"), (100,) * 4, (99, 98, 10, 5), (100, 100, 100, 20))
WRONG = Anatomy((FACET,), wrong=188, rivals=94, mistakes=(Mistake("<A0>", "A1", 7),))


def with_anatomy(record: Record, anatomy: Anatomy) -> Record:
    parts = tuple(replace(part, anatomy=anatomy) for part in record.evaluations)
    return replace(record, evaluations=parts)


def page(tmp_path: Path, records: list[Record]) -> str:
    build([made.write(tmp_path / "records", records)], tmp_path / "site")
    return (tmp_path / "site" / "entries" / "lstm.html").read_text(encoding="utf-8")


def test_a_page_says_where_its_entry_is_wrong_over_all_seeds(tmp_path: Path) -> None:
    records = [with_anatomy(made.record(seed=seed), WRONG) for seed in (1, 2, 3)]
    text = page(tmp_path, [*records, made.record(task="mqar-v1")])
    assert (
        "<dt>selective copy</dt><dd>fails beyond 2 symbols of memory: "
        "0.12 of what can be known is named there, 0.98 elsewhere." in text
    )
    assert "50% of its wrong answers name a near rival" in text
    assert "most frequent: A1 for &lt;A0&gt; (21)" in text
    assert "<dt>mqar</dt>" not in text
    with (tmp_path / "site" / "charts" / "lstm-lite-cpu-anatomy.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["task", "by", "bin", "elements", "right", "can_be_known"]
    assert rows[4] == ["selective copy", "memory", "9+", "300", "15", "60"]


def test_a_page_of_records_without_says_nothing(tmp_path: Path) -> None:
    text = page(tmp_path, [made.record()])
    assert "Where it is" not in text
    assert not (tmp_path / "site" / "charts" / "lstm-lite-cpu-anatomy.csv").exists()


def test_an_entry_without_errors_is_said_to_have_none(tmp_path: Path) -> None:
    best = replace(FACET, rights=FACET.best)
    text = page(tmp_path, [with_anatomy(made.record(), Anatomy((best,), 0, 0))])
    assert "no element is wrong." in text


def test_errors_everywhere_are_said_to_keep_to_no_kind(tmp_path: Path) -> None:
    even = replace(FACET, rights=(50, 50, 50, 10))
    text = page(tmp_path, [with_anatomy(made.record(), Anatomy((even,), 200, 10))])
    assert "its errors keep to no kind of element." in text


def test_a_record_that_gained_an_anatomy_replaces_the_one_without(tmp_path: Path) -> None:
    plain = made.record()
    results = tmp_path / "results"
    assert add([made.write(tmp_path / "a", [plain])], results).new == (plain.identity.stem,)
    again = made.write(tmp_path / "b", [with_anatomy(plain, WRONG)])
    assert add([again], results).new == (plain.identity.stem,)
    kept = (results / f"{plain.identity.stem}.json").read_text(encoding="utf-8")
    assert Record.from_json(kept) == with_anatomy(plain, WRONG)
    assert add([again], results).same == (plain.identity.stem,)
