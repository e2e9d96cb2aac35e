"""What several rooms' tests need: patience, compiled kernels, one plausible record."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from selectivbench.anatomy import Anatomy, Facet, Mistake
from selectivbench.record import Entry, Evaluation, Identity, Point, Record

# A busy neighbour must not fail a property: how long an example takes is no claim of ours.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

CACHE = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")


@pytest.fixture(autouse=True)
def kernels_that_are_compiled_already(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytester gives every test a new home, in which kernels would be compiled anew."""
    monkeypatch.setenv("XDG_CACHE_HOME", CACHE)


@pytest.fixture
def a_record() -> Record:
    """A passed selective-copy case with every field filled."""
    identity = Identity(
        "lstm", "ab" * 32, "selective_copy-v1", "base", "lite", 1, "cpu", "b" * 24, "e" * 24
    )
    place = Facet("place", ("1", "2"), (50, 50), (50, 49), (50, 50))
    anatomy = Anatomy((place,), wrong=1, rivals=1, mistakes=(Mistake("3", "5", 1),))
    return Record(
        identity=identity,
        entry=Entry("lstm", "LSTM", "mixer", tags=("gated",), expected_fail=("other-v1",)),
        status="pass",
        accuracy=0.99,
        floor=0.125,
        ceiling=1.0,
        score=0.9886,
        evaluations=(Evaluation("test", 0.99, 0.125, 1.0, anatomy),),
        curve=(Point(10, 2.0, 0.5), Point(20, 1.0)),
        parameters=57_000,
        state_size=96,
        seconds={"fit": 12.5},
        peak_memory=300_000_000,
        budget={"steps": 20},
        environment={"torch": "2.13.0"},
        machine={"cores": 2},
        created="2026-01-01T00:00:00+00:00",
    )
