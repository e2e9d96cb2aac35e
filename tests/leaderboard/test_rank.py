"""Means, intervals and ranks: missing stays missing, nobody picks seeds, ties share a rank."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard import rank
from leaderboard.load import Case
from leaderboard.rank import OVERALL, SEEDS, VARIANT, Standing, standings
from selectivbench import stats
from selectivbench.audited import Audited
from selectivbench.record import Finding, Record
from selectivbench.thresholds import Bar
from tests.leaderboard import made


def no_bars(_task: str, _profile: str, _variant: str) -> None:
    return None


def cases(records: Iterable[Record]) -> list[Case]:
    return [
        Case(r, Path(f"{r.identity.stem}.json"), "0" * 64, r.created.replace("+00:00", "Z"))
        for r in records
    ]


def ranked(records: Iterable[Record], bars: Any = no_bars) -> dict[str, Standing]:
    return {s.entry.id: s for s in standings(cases(records), bars)}


def test_overall_is_the_mean_of_the_four_tasks() -> None:
    records = [
        made.record("lstm", task, seed, score)
        for task, score in zip(OVERALL, (0.6, 0.7, 0.8, 0.9), strict=True)
        for seed in (1, 2, 3)
    ]
    overall = ranked(records)["lstm"].overall
    assert overall is not None
    assert overall.value == pytest.approx(0.75)
    assert overall.half == pytest.approx(0)


@pytest.mark.parametrize("missing", OVERALL)
def test_with_one_task_missing_there_is_no_overall_and_no_rank(missing: str) -> None:
    records = [r for r in made.suite("lstm", 0.9) if r.identity.task != missing]
    standing = ranked(records)["lstm"]
    assert standing.overall is None
    assert standing.rank is None


def test_with_one_seed_missing_the_task_is_incomplete() -> None:
    records = made.suite("lstm", 0.9)[1:]
    standing = ranked(records)["lstm"]
    cell = standing.cells["selective_copy-v1", "base"]
    assert cell.verdict == "incomplete"
    assert cell.mean is not None
    assert cell.mean.n == 2
    assert standing.overall is None


def test_a_seed_of_ones_own_does_not_count() -> None:
    lucky = [made.record("lstm", seed=99, score=1.0)]
    cell = ranked([*made.suite("lstm", 0.5), *lucky])["lstm"].cells["selective_copy-v1", "base"]
    assert cell.mean is not None
    assert cell.mean.value == pytest.approx(0.5)
    assert len(cell.cases) == 4


def test_rank_is_one_more_than_the_entries_wholly_above() -> None:
    records = [
        *made.suite("best", 0.95, 0.005),
        *made.suite("tied", 0.95, 0.02),
        *made.suite("next", 0.80, 0.005),
        *made.suite("last", 0.30, 0.005),
        *made.suite("part", 0.99)[:3],
    ]
    found = {name: s.rank for name, s in ranked(records).items()}
    assert found == {"best": 1, "tied": 1, "next": 3, "last": 4, "part": None}


def test_oversize_mixers_and_models_are_ranked_apart() -> None:
    records = [
        *made.suite("small", 0.5),
        *made.suite("wide", 0.9, oversize=True),
        *made.suite("whole", 0.9, about={"kind": "model"}),
        *made.suite("gpu", 0.9, device="cuda"),
        *made.suite("paper", 0.9, profile="paper"),
    ]
    found = ranked(records)
    assert {s.rank for name, s in found.items() if name != "paper"} == {1}
    assert {name: s.division for name, s in found.items()} == {
        **dict.fromkeys(("small", "gpu", "paper"), "mixer"),
        "wide": "oversize",
        "whole": "model",
    }


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 0.05)), min_size=1, max_size=6))
def test_ranks_follow_their_definition(entries: list[tuple[float, float]]) -> None:
    records = [r for i, (mid, s) in enumerate(entries) for r in made.suite(f"e{i}", mid, s)]
    found = standings(cases(records), no_bars)
    for one in found:
        assert one.overall is not None
        above = sum(o.overall is not None and o.overall.low > one.overall.high for o in found)
        assert one.rank == 1 + above


def test_the_order_of_the_records_does_not_matter() -> None:
    records = [*made.suite("a", 0.9), *made.suite("b", 0.8), *made.suite("c", 0.8)]
    shuffled = random.Random(1).sample(records, len(records))
    assert standings(cases(records), no_bars) == standings(cases(shuffled), no_bars)


def test_the_newest_source_is_shown_and_never_mixed_with_an_older_one() -> None:
    old = made.suite("lstm", 0.9, source="old", created="2026-01-01T00:00:00+00:00")
    new = made.suite("lstm", 0.5, source="new", created="2026-02-01T00:00:00+00:00")[:3]
    standing = ranked([*new, *old])["lstm"]
    assert standing.source == made.sha("new")
    assert [c.record.identity.source_sha256 for c in standing.cases] == [made.sha("new")] * 3
    assert standing.overall is None


def test_a_cut_budget_is_never_averaged_with_a_full_one() -> None:
    full = [made.record(seed=seed, score=0.9) for seed in (1, 2)]
    cut = [made.record(seed=3, score=0.1, budget="cut", created="2026-05-01T00:00:00+00:00")]
    cell = ranked([*full, *cut])["lstm"].cells["selective_copy-v1", "base"]
    assert [c.record.identity.seed for c in cell.cases] == [1, 2]


def test_a_cut_budget_with_seeds_of_ones_own_does_not_hide_a_full_one() -> None:
    full = [made.record(seed=seed, score=0.9) for seed in (1, 2, 3)]
    cut = [made.record(seed=seed, score=0.1, budget="cut") for seed in (1, 7, 8, 9)]
    cell = ranked([*full, *cut])["lstm"].cells["selective_copy-v1", "base"]
    assert [c.record.identity.seed for c in cell.cases] == [1, 2, 3]


def test_a_verified_record_is_preferred_to_a_newer_unverified_one() -> None:
    checked = made.record(score=0.8, verified=True, created="2026-01-01T00:00:00+00:00")
    claimed = made.record(score=0.9, created="2026-02-01T00:00:00+00:00")
    (pair,) = {checked.identity} | {claimed.identity}
    assert pair == checked.identity
    found = standings(cases([claimed, checked]), no_bars)
    assert [c.record.verified for c in found[0].cases] == [True]


@pytest.mark.parametrize(
    ("marks", "gaps", "wanted"),
    [
        ([True] * 3, [0.88], "verified"),
        ([True] * 3, [], "partly verified"),  # nobody has audited it
        ([True, False, True], [0.88], "partly verified"),
        ([False] * 3, [0.88], "self-reported"),
        ([True] * 3, [0.7], "marked"),
        ([True] * 3, [0.88, 0.7], "marked"),  # one salt of several suffices
        ([False] * 3, [0.7], "marked"),
    ],
)
def test_verified_needs_every_record_an_audit_and_no_mark(
    marks: Sequence[bool], gaps: Sequence[float], wanted: str
) -> None:
    records = [made.record(seed=i + 1, verified=mark) for i, mark in enumerate(marks)]
    audits = [audit_of(records[:1], secret) for secret in gaps]
    (standing,) = standings(cases(records), no_bars, audits)
    assert standing.verified == wanted


def audit_of(records: Iterable[Record], secret: float) -> Audited:
    gaps = tuple(made.gap(record, 0.9, secret) for record in records)
    return Audited(made.sha(str(secret)), "namespaces", gaps)


@pytest.mark.parametrize(
    "change",
    [{"source_sha256": "c" * 64}, {"budget_digest": "c" * 24}, {"task": "mqar-v1"}],
    ids=lambda change: next(iter(change)),
)
def test_an_audit_of_something_else_says_nothing(change: dict[str, str]) -> None:
    record = made.record(verified=True)
    other = replace(record, identity=replace(record.identity, **change))  # type: ignore[arg-type]
    (standing,) = standings(cases([record]), no_bars, [audit_of([other], 0.1)])
    assert standing.gaps == ()
    assert standing.verified == "partly verified"


def test_an_audit_gap_takes_the_rank_and_leaves_the_score() -> None:
    records = [*made.suite("fair", 0.5), *made.suite("carrier", 0.95)]
    fair, carrier = (
        {s.entry.id: s for s in standings(cases(records), no_bars, [audit_of(records[-1:], 0.1)])}
        [name] for name in ("fair", "carrier")
    )  # fmt: skip
    assert (fair.rank, carrier.rank) == (1, None)
    assert carrier.overall is not None
    assert "the audit marks gap_extrapolation-v2: public 0.900, audit 0.100" in carrier.marks[0]


def test_a_check_that_does_not_hold_takes_scores_and_rank() -> None:
    broken = Finding("causality", False, "change 2, allowed: 0.0001")
    bad = made.suite("peeks", 0.95, status="invalid", validity=(broken,))
    found = ranked([*made.suite("fair", 0.5), *bad])
    assert (found["fair"].rank, found["peeks"].rank) == (1, None)
    assert found["peeks"].overall is None
    assert {cell.verdict for cell in found["peeks"].cells.values()} == {"invalid"}
    assert found["peeks"].marks == ("causality does not hold: change 2, allowed: 0.0001.",)
    assert found["peeks"].findings == (broken,)


@pytest.mark.parametrize(
    ("scores", "statuses", "wanted"),
    [
        ((0.9, 0.9, 0.7), ("pass", "pass", "fail"), "pass"),
        ((0.9, 0.7, 0.7), ("pass", "fail", "fail"), "fail"),
        ((0.9, 0.9, None), ("pass", "pass", "oom"), "oom"),
    ],
)
def test_a_task_passes_when_the_mean_of_every_seed_reaches_the_bar(
    scores: Sequence[float | None], statuses: Sequence[str], wanted: str
) -> None:
    def bars(task: str, profile: str, variant: str) -> Bar:
        return Bar(task, profile, variant, 0.8, 0.02, True, "test")

    pairs = zip(scores, statuses, strict=True)
    records = [made.record(seed=i + 1, score=s, status=t) for i, (s, t) in enumerate(pairs)]
    assert ranked(records, bars)["lstm"].cells["selective_copy-v1", "base"].verdict == wanted


@pytest.mark.parametrize(
    ("statuses", "wanted"),
    [(("pass",) * 3, "ran"), (("pass", "fail", "pass"), "fail"), (("pass", "oom", "pass"), "oom")],
)
def test_without_a_bar_nothing_is_passed(statuses: Sequence[str], wanted: str) -> None:
    records = [made.record(seed=i + 1, status=status) for i, status in enumerate(statuses)]
    assert ranked(records)["lstm"].cells["selective_copy-v1", "base"].verdict == wanted


def test_costs_are_told_of_the_tasks_that_all_entries_share() -> None:
    large = {"parameters": 80_000, "state_size": 500, "seconds": {"fit": 900.0}}
    more = made.record("lstm", "memorization-v1", 1, 0.5, variant="amb20", **large)
    standing = ranked([*made.suite("lstm", 0.9), more])["lstm"]
    assert (standing.parameters, standing.state_size, standing.seconds("fit")) == (57_000, 96, 30.5)
    alone = ranked([more])["lstm"]
    assert (alone.parameters, alone.state_size, alone.seconds("fit")) == (80_000, 500, 900.0)


def test_speed_is_relative_to_the_reference_of_the_same_run() -> None:
    timed = made.record(seconds={"step": 0.2, "reference_step": 0.3, "predict": 0.1})
    standing = ranked([timed])["lstm"]
    assert standing.speed("step") == pytest.approx(1.5)
    assert standing.speed("predict") is None


def test_the_fixed_seeds_are_those_of_the_profiles() -> None:
    profiles = pytest.importorskip("selectivbench.profiles", reason="the profiles are not here yet")
    assert {name: p.seeds for name, p in profiles.PROFILES.items()} == dict(SEEDS)


@pytest.mark.parametrize("profile", ["smoke", "lite", "paper"])
@pytest.mark.parametrize("task", OVERALL)
def test_the_variant_that_counts_is_the_tasks_first(profile: str, task: str) -> None:
    tasks = pytest.importorskip("selectivbench.tasks", reason="the tasks are not here yet")
    (first, *_) = next(t for t in tasks.TASKS if t.id == task).variants[profile]
    assert VARIANT.get((profile, task), "base") == first


def test_another_variant_does_not_count() -> None:
    records = [r for r in made.suite("lstm", 0.9) if r.identity.task != "distractors-v1"]
    easy = [made.record("lstm", "distractors-v1", s, 0.9, variant="base") for s in (1, 2, 3)]
    assert ranked([*records, *easy])["lstm"].overall is None


@pytest.mark.parametrize(("freedom", "wanted"), [(1, 12.706), (2, 4.303), (30, 2.042), (31, 1.96)])
def test_t_points(freedom: int, wanted: float) -> None:
    assert stats.t_point(freedom) == wanted


def test_the_t_interval_covers_as_often_as_it_says() -> None:
    rng = random.Random(7)
    trials = 2_000
    hits = 0
    for _ in range(trials):
        sample = stats.mean([rng.gauss(0, 1) for _ in range(3)])
        hits += sample.low <= 0 <= sample.high
    assert hits / trials == pytest.approx(0.95, abs=0.015)


def test_two_tasks_of_one_training_do_not_count_as_two_samples() -> None:
    spread = {"noisy_gaps-v2": 0.1, "gap_extrapolation-v2": 0.1}
    records = [
        made.record("lstm", task, seed, 0.5 + spread.get(task, 0.0) * (seed - 2))
        for task in OVERALL
        for seed in (1, 2, 3)
    ]
    overall = ranked(records)["lstm"].overall
    assert overall is not None
    # half of the score is one training with a standard error of 0.1 / sqrt(3), 2 degrees of freedom
    assert overall.half == pytest.approx(stats.t_point(2) * 0.1 / 3**0.5 / 2)


def test_the_mean_of_means_has_welchs_degrees_of_freedom() -> None:
    parts = [stats.mean([0.1, 0.2, 0.3]), stats.mean([0.4, 0.4, 0.4]), stats.mean([0.0, 0.1, 0.2])]
    both = stats.mean_of_means(parts, [1, 1, 1])
    assert both.value == pytest.approx(0.7 / 3)
    assert both.error == pytest.approx((2 * 0.1**2 / 3) ** 0.5 / 3)
    assert both.half == pytest.approx(stats.t_point(4) * both.error)


def test_the_sign_flip_p_counts_every_pattern() -> None:
    assert stats.sign_flip([0.1, 0.2, 0.3]) == 0.25
    assert stats.sign_flip([0.1, -0.1]) == 1.0
    assert stats.sign_flip([]) is None
    assert stats.sign_flip([0.1] * 17) is None


def test_the_current_source_does_not_depend_on_dates_alone() -> None:
    same = [made.record(source=text) for text in ("a", "b")]
    assert rank.current(cases(same)) == max(made.sha("a"), made.sha("b"))
