"""The file of an audit: its round trip, what is merged, and what is no audit."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from selectivbench.audited import Audited, Gap
from selectivbench.errors import RecordError

GAP = Gap("mine", "a" * 64, "t-v1", "base", "lite", "cpu", "b" * 24, 0.9, 0.85, 0.1)
AUDIT = Audited("c" * 64, "namespaces", (GAP,))


def test_round_trip() -> None:
    assert Audited.from_json(AUDIT.to_json()) == AUDIT


def test_a_mark_is_made_anew_and_not_believed() -> None:
    data = json.loads(AUDIT.to_json())
    assert data["gaps"][0]["marked"] is False
    data["gaps"][0] |= {"audit": 0.2, "marked": False, "gap": 0.0}
    (gap,) = Audited.from_json(json.dumps(data)).gaps
    assert gap.marked


def test_newer_gaps_replace_older_ones_about_the_same() -> None:
    newer, other = replace(GAP, audit=0.1), replace(GAP, task="s-v1")
    assert AUDIT.with_gaps([newer, other]).gaps == (other, newer)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("commitment", "../../x"),
        ("commitment", None),
        ("isolation", 3),
        ("gaps", None),
        ("gaps", [{}]),
        ("entry", "\x1b[2J"),
        ("entry", "x" * 101),
        ("public", "0.9"),
        ("public", True),
        ("audit", float("nan")),
        ("allowed", 10**400),
    ],
)
def test_what_is_no_audit(name: str, value: Any) -> None:
    data = json.loads(AUDIT.to_json())
    (data if name in data else data["gaps"][0])[name] = value
    with pytest.raises(RecordError, match="not an audit"):
        Audited.from_json(json.dumps(data))
