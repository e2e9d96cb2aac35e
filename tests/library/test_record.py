"""Records: their schema, their round trip, and what is no record."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selectivbench.anatomy import Anatomy, Facet, Mistake
from selectivbench.errors import RecordError
from selectivbench.record import (
    REUSED,
    SCHEMA_VERSION,
    STATUSES,
    Entry,
    Evaluation,
    Finding,
    Identity,
    Point,
    Record,
    digest,
)

# A change here is a change of the schema: raise SCHEMA_VERSION with it.
SCHEMA = {
    Record: """identity entry status cause metric accuracy floor ceiling score evaluations curve
        validation stopped_at parameters oversize saved_numbers state_size seconds peak_memory
        baseline_memory isolation isolation_notes validity probe verified from_saved custom pieces
        graphs utilisation selection budget environment machine created schema""",
    Identity: """entry source_sha256 task variant profile seed device_class budget_digest
        environment_digest""",
    Entry: "id name kind paper authors tags expected_fail",
    Evaluation: "split accuracy floor ceiling anatomy scored",
    Anatomy: "facets wrong rivals mistakes",
    Facet: "by bins counts rights best",
    Mistake: "asked answered count",
    Point: "step loss accuracy",
    Finding: "check ok text",
}


@pytest.mark.parametrize(("cls", "names"), SCHEMA.items(), ids=lambda v: getattr(v, "__name__", ""))
def test_the_schemas_fields_are_pinned(cls: Any, names: str) -> None:
    assert [f.name for f in fields(cls)] == names.split()


def test_the_schemas_constants_are_pinned() -> None:
    assert SCHEMA_VERSION == 1
    assert STATUSES == ("pass", "fail", "invalid", "error", "timeout", "oom", "crash", "skip")
    assert REUSED == ("pass", "fail", "invalid")


def test_round_trip(a_record: Record) -> None:
    again = Record.from_json(a_record.to_json())
    assert again == a_record
    assert again.to_json() == a_record.to_json()


def test_a_record_of_before_anatomies_is_read(a_record: Record) -> None:
    data = json.loads(a_record.to_json())
    del data["evaluations"][0]["anatomy"]
    assert Record.from_json(json.dumps(data)).evaluations[0].anatomy is None


def test_a_record_from_before_there_were_findings_has_none(a_record: Record) -> None:
    data = json.loads(a_record.to_json())
    del data["validity"]
    assert Record.from_json(json.dumps(data)).validity == ()


def test_round_trip_of_a_case_that_got_nowhere(a_record: Record) -> None:
    bare = Record(identity=a_record.identity, entry=a_record.entry, status="crash", cause="é\n")
    assert Record.from_json(bare.to_json()) == bare


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.builds(Point, st.integers(0), finite, st.none() | finite)), st.text(), finite)
def test_round_trip_of_any_curve(curve: list[Point], cause: str, accuracy: float) -> None:
    record = Record(
        Identity("é", "", "t-v1", "base", "lite", 1, "cpu", "", ""),
        Entry("é", "É", "model"),
        "fail",
        cause=cause,
        accuracy=accuracy,
        curve=tuple(curve),
    )
    assert Record.from_json(record.to_json()) == record


def test_the_text_is_sorted_and_ends_in_a_newline(a_record: Record) -> None:
    text = a_record.to_json()
    assert text.endswith("}\n")
    assert list(json.loads(text)) == sorted(json.loads(text))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_record_with_no_number_is_not_written(a_record: Record, value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        replace(a_record, score=value).to_json()


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "[]", "3", '"text"', "{}", "[" * 100_000, "\x00", '{"schema": 1}'],
)
def test_a_text_that_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(RecordError):
        Record.from_json(text)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("schema", 2, "record schema: got 2, allowed: 1; re-run"),
        ("schema", None, "record schema"),
        ("status", "great", "record status: got 'great'"),
        ("status", ["pass"], "status"),
        ("accuracy", "0.9", "accuracy: got '0.9', allowed: float"),
        ("accuracy", True, "accuracy: got True"),
        pytest.param("score", 10**400, "score", id="huge"),
        ("floor", [], "floor"),
        ("ceiling", {}, "ceiling"),
        ("colour", "red", r"unknown fields \['colour'\] in Record"),
        ("verified", 1, "verified"),
        ("oversize", "no", "oversize"),
        ("cause", 3, "cause"),
        ("cause", None, "cause"),
        ("parameters", "57k", "parameters"),
        ("parameters", 1.5, "parameters"),
        ("state_size", True, "state_size"),
        ("peak_memory", -1.5, "peak_memory"),
        ("seconds", [1], "seconds"),
        ("seconds", {"fit": "long"}, "seconds"),
        ("machine", None, "machine"),
        ("identity", None, "identity"),
        ("identity.seed", "1", "seed"),
        ("identity.seed", True, "seed"),
        ("identity.entry", 5, "entry"),
        ("identity.host", "x", r"unknown fields \['host'\] in Identity"),
        ("entry", [], "entry"),
        ("entry.name", ["LSTM"], "name"),
        ("entry.tags", "gated", "tags"),
        ("entry.tags", [1], "tags"),
        ("entry.kind", "other", "kind"),
        ("entry.colour", "red", "colour"),
        ("evaluations", None, "TypeError"),
        ("evaluations", [1], "evaluation: got 'int'"),
        ("evaluations.0.anatomy", 1, "anatomy: got 'int'"),
        ("evaluations.0.anatomy", {}, "KeyError"),
        ("evaluations.0.anatomy.wrong", "many", "wrong"),
        ("evaluations.0.anatomy.more", 1, "more"),
        ("evaluations.0.anatomy.facets", [[]], "facet"),
        ("evaluations.0.anatomy.facets.0.bins", [1, 2], "bins"),
        ("evaluations.0.anatomy.facets.0.rights", [0.5, 1], "rights"),
        ("evaluations.0.anatomy.mistakes.0.count", None, "count"),
        ("evaluations", [{"split": "test"}], "TypeError"),
        ("evaluations.0.accuracy", "high", "accuracy"),
        ("evaluations.0.floor", None, "floor"),
        ("evaluations.0.extra", 1, "extra"),
        ("curve", [[1, 2]], "TypeError"),
        ("curve.0.loss", "low", "loss"),
        ("curve.0.step", 1.5, "step"),
        ("validity", None, "TypeError"),
        ("validity", [{"check": "causality"}], "TypeError"),
        ("validity", [{"check": "causality", "ok": 1, "text": ""}], "ok"),
    ],
)
def test_a_hostile_value_is_refused(a_record: Record, path: str, value: Any, words: str) -> None:
    data = json.loads(a_record.to_json())
    *way, last = (int(part) if part.isdigit() else part for part in path.split("."))
    place = data
    for part in way:
        place = place[part]
    place[last] = value
    with pytest.raises(RecordError, match=words):
        Record.from_json(json.dumps(data))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("place", ['"loss": 2.0', '"floor": 0.125', '"cores": 2'])
def test_a_number_that_is_none_is_refused(a_record: Record, number: str, place: str) -> None:
    name, colon, _ = place.rpartition(" ")
    text = a_record.to_json()
    assert place in text
    with pytest.raises(RecordError):
        Record.from_json(text.replace(place, name + colon + number))


def test_a_missing_field_is_refused(a_record: Record) -> None:
    for name in ("identity", "entry", "status", "evaluations", "curve"):
        data = json.loads(a_record.to_json())
        del data[name]
        with pytest.raises(RecordError):
            Record.from_json(json.dumps(data))


@pytest.mark.parametrize("name", [f.name for f in fields(Identity)])
def test_the_key_changes_with_each_field_of_the_identity(a_record: Record, name: str) -> None:
    identity = a_record.identity
    other = replace(identity, **{name: 2 if name == "seed" else "other"})  # type: ignore[arg-type]
    assert other.key != identity.key
    assert other.stem != identity.stem


def test_the_stem_is_readable_first_and_unique_last(a_record: Record) -> None:
    identity = a_record.identity
    assert identity.stem == f"lstm-selective_copy-v1-base-lite-seed1-{identity.key}"
    assert len(identity.key) == 24


def test_the_digest_ignores_the_order_and_refuses_nan() -> None:
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 1, "b": 3})
    with pytest.raises(ValueError, match="JSON"):
        digest({"a": math.nan})


def test_a_record_from_before_validations_were_kept_has_none(a_record: Record) -> None:
    data = json.loads(a_record.to_json())
    del data["validation"], data["stopped_at"]
    older = Record.from_json(json.dumps(data))
    assert older.validation is older.stopped_at is None
