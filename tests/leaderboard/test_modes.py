"""Results under autocast or CUDA graphs stand apart from those of the profile's own way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leaderboard.load import load
from leaderboard.pages import command
from leaderboard.rank import standings
from leaderboard.render import build
from leaderboard.store import add
from selectivbench.record import CHECKS, Record
from tests.leaderboard import made

BF16 = {"precision": "bf16"}


def suite(score: float, device: str, facts: Mapping[str, Any], **fields: Any) -> list[Record]:
    """A whole suite of the LSTM, trained in another way and later than the plain one."""
    when = "2026-05-01T10:00:00+00:00"
    records = made.suite("lstm", score, device=device, budget=device, created=when, **fields)
    return [replace(record, budget={"steps": 700, **facts}) for record in records]


def test_each_way_has_its_own_standing_and_rank(tmp_path: Path) -> None:
    narrow = suite(0.5, "cpu+bf16", BF16)
    made.write(tmp_path, [*made.suite("lstm", 0.9), *narrow])
    loaded = load([tmp_path])
    assert not loaded.refused
    plain, apart = standings(loaded.cases)
    assert [(s.device, s.rank) for s in (plain, apart)] == [("cpu", 1), ("cpu+bf16", 1)]
    assert plain.overall is not None
    assert plain.overall.value == pytest.approx(0.9)
    assert apart.overall is not None
    assert apart.overall.value == pytest.approx(0.5)
    assert build([tmp_path], tmp_path / "site").refused == ()
    text = (tmp_path / "site" / "entries" / "lstm.html").read_text(encoding="utf-8")
    assert "lite · cpu+bf16" in text


@pytest.mark.parametrize(
    ("device", "facts", "words"),
    [
        ("cpu", {}, ["--selectiv-device=cpu"]),
        ("cpu+bf16", BF16, ["--selectiv-device=cpu", "--selectiv-precision=bf16"]),
        (
            "NVIDIA-H200+bf16+graphs",
            {**BF16, "cuda_graphs": True},
            ["--selectiv-device=cuda", "--selectiv-precision=bf16", "--selectiv-cuda-graphs"],
        ),
    ],
)
def test_the_command_says_how(
    tmp_path: Path, device: str, facts: Mapping[str, Any], words: list[str]
) -> None:
    made.write(tmp_path, suite(0.9, device, facts))
    (standing,) = standings(load([tmp_path]).cases)
    told = command(standing).replace("\\\n", "").split()
    assert set(words) <= set(told)
    assert len([w for w in told if "precision" in w or "graphs" in w]) == len(words) - 1


@pytest.mark.parametrize(
    ("device", "facts"),
    [
        ("cpu", BF16),
        ("cpu+bf16", {}),
        ("cpu+bf16", {"precision": "fp8"}),
        ("cpu+graphs", BF16),
        ("cpu+fast", {}),
        ("cpu", {"cuda_graphs": True}),
    ],
)
def test_a_record_that_hides_its_way_is_refused(
    tmp_path: Path, device: str, facts: Mapping[str, Any]
) -> None:
    made.write(tmp_path, suite(0.9, device, facts)[:1])
    loaded = load([tmp_path])
    assert not loaded.cases
    assert len(loaded.refused) == 1


def test_on_a_gpu_the_mark_asks_for_the_isolation_of_a_gpu(tmp_path: Path) -> None:
    """Whatever the way: its device class is not just a name of a device."""
    fields = {"isolation": "landlock", "validity": made.CHECKED}
    assert len(made.CHECKED) == len(CHECKS)
    for device, facts, refused in (
        ("NVIDIA-H200+bf16", BF16, 0),
        ("cpu+bf16", BF16, 12),
    ):
        folder = made.write(tmp_path / device, suite(0.9, device, facts, **fields))
        added = add([folder], tmp_path / f"results-{device}", verified=True)
        assert len(added.refused) == refused


def test_how_busy_devices_were_is_on_the_page(tmp_path: Path) -> None:
    made.write(tmp_path, made.suite("lstm", 0.9, utilisation=0.875))
    build([tmp_path], tmp_path / "site")
    text = (tmp_path / "site" / "entries" / "lstm.html").read_text(encoding="utf-8")
    assert "<dt>Device busy</dt><dd>88%</dd>" in text


def test_a_share_below_nothing_is_refused(tmp_path: Path) -> None:
    made.write(tmp_path, [made.record(utilisation=-0.1)])
    (refusal,) = load([tmp_path]).refused
    assert "utilisation: got '-0.1'" in refusal.reason
