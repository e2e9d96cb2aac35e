"""Bars and claims: derived from made records exactly, and from the committed ones again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from selectivbench import thresholds
from selectivbench.errors import EvidenceError, UsageError
from selectivbench.evidence import bars, claims, contrasts, freeze, gates, page
from selectivbench.evidence.rescore import rescore
from selectivbench.evidence.runs import (
    LITE_COPY,
    LITE_DISTRACTORS,
    LITE_GAPS,
    Case,
    Runs,
    references,
)
from selectivbench.mechanism.effects import Effect
from selectivbench.mechanism.report import Intervention, Measured, Probe
from selectivbench.profiles import PROFILES
from selectivbench.record import Finding, Point, Record
from selectivbench.store import RecordStore
from selectivbench.thresholds import bar_for

Make = Callable[..., Record]
SEEDS = (1, 2, 3)


@pytest.fixture
def made(a_record: Record) -> Make:
    """A record of an entry, case and seed with a score, at the full budget of its profile."""

    def make(entry: str, case: Case, seed: int, score: float, **other: object) -> Record:
        who = replace(
            a_record.identity,
            entry=entry,
            task=case.task,
            profile=case.profile,
            variant=case.variant,
            seed=seed,
        )
        plan = PROFILES[case.profile].plan(case.task.rpartition("-v")[0])
        budget = {"budget": {"steps": plan.budget.steps}}
        return replace(a_record, identity=who, score=score, budget=budget, **other)  # type: ignore[arg-type]

    return make


def all_references(made: Make, case: Case, scores: Mapping[str, float]) -> Runs:
    """Three seeds of every reference, 0.01 apart."""
    return Runs.of(
        made(entry, case, seed, score + 0.01 * (seed - 2))
        for entry, score in scores.items()
        for seed in SEEDS
    )


BARS = {LITE_COPY: 0.9, LITE_GAPS: 0.8, LITE_DISTRACTORS: 0.7}
SEPARATE = {
    "lstm": 0.95,
    "gru": 0.96,
    "mamba": 0.90,
    "mamba2": 0.91,
    "gated_delta_net": 0.93,
    "s4d": 0.70,
    "linear_attention": 0.60,
}


class TestRuns:
    def test_the_newest_record_of_a_seed_counts(self, made: Make) -> None:
        old = made("lstm", LITE_COPY, 1, 0.5, created="2026-01-01T00:00:00+00:00")
        new = made("lstm", LITE_COPY, 1, 0.9, created="2026-02-01T00:00:00+00:00")
        assert Runs.of([new, old]).scores("lstm", LITE_COPY) == {1: 0.9}

    def test_a_cut_budget_is_no_evidence(self, made: Make) -> None:
        record = made("lstm", LITE_COPY, 1, 0.5)
        assert not Runs.of([replace(record, budget={"budget": {"steps": 5}})]).records

    def test_sizes_of_ones_own_are_no_evidence(self, made: Make) -> None:
        assert not Runs.of([made("lstm", LITE_COPY, 1, 0.5, custom={"lr": 0.1})]).records

    @pytest.mark.parametrize(
        "changes",
        [{"status": "invalid"}, {"validity": (Finding("causality", False, "it peeks"),)}],
        ids=["status", "finding"],
    )
    def test_an_invalid_run_is_no_evidence(self, made: Make, changes: dict[str, object]) -> None:
        assert not Runs.of([made("lstm", LITE_COPY, 1, 0.99, **changes)]).records

    def test_another_device_is_no_evidence(self, made: Make) -> None:
        record = made("lstm", LITE_COPY, 1, 0.5)
        other = replace(record, identity=replace(record.identity, device_class="H200"))
        assert not Runs.of([other]).records

    def test_a_failed_run_has_no_score(self, made: Make) -> None:
        assert not Runs.of([replace(made("lstm", LITE_COPY, 1, 0.5), score=None)]).records

    def test_an_unreadable_file_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "x-v1-y.json").write_text("{")
        with pytest.raises(UsageError, match=r"x-v1-y\.json: not a record"):
            Runs.load(tmp_path)

    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="an existing folder"):
            Runs.load(tmp_path / "nowhere")

    def test_references_are_submissions_of_ours(self) -> None:
        there = {path.stem for path in Path("submissions").glob("*.py")}
        data = references()
        lists = [data["selective"], *data["not_selective"].values(), *data["forgetting"]["pairs"]]
        lists += [*data["mixing"].values(), *data["attention"].values()]
        named = {entry for entries in lists for entry in entries}
        assert named | {*data["steps"].values()} <= there


class TestBars:
    def test_midpoint_sigma_and_separation(self, made: Make) -> None:
        derived = bars.derive(all_references(made, LITE_GAPS, SEPARATE), LITE_GAPS)
        assert derived is not None
        assert derived.bar == 0.8  # between Mamba's 0.90 and S4D's 0.70
        assert derived.sigma == 0.01
        assert derived.runs == 21
        assert derived.separation == pytest.approx(20)
        assert derived.wrong == ()

    def test_linear_attention_is_no_contrast_on_selective_copy(self, made: Make) -> None:
        solved = {**SEPARATE, "linear_attention": 0.99}
        runs = all_references(made, LITE_COPY, solved)
        assert bars.derive(runs, LITE_COPY) is None  # eighteen runs of six references
        more = [made("s4d", LITE_COPY, seed, 0.70) for seed in (4, 5)]
        copy = bars.derive(Runs.of([*runs.records.values(), *more]), LITE_COPY)
        gaps = bars.derive(all_references(made, LITE_GAPS, solved), LITE_GAPS)
        assert copy is not None
        assert gaps is not None
        assert copy.bar == 0.8
        assert copy.runs == 20
        assert gaps.best.entry == "linear_attention"
        assert gaps.separation < 0
        assert not gaps.separates
        assert gaps.bar == pytest.approx(
            0.90 - 3 * gaps.sigma
        )  # for learning at all, below Mamba's
        assert gaps.wrong == ()

    def test_a_run_on_the_wrong_side_is_named(self, made: Make) -> None:
        runs = all_references(made, LITE_GAPS, SEPARATE)
        unlucky = made("mamba", LITE_GAPS, 3, 0.76, created="2027-01-01T00:00:00+00:00")
        derived = bars.derive(Runs.of([*runs.records.values(), unlucky]), LITE_GAPS)
        assert derived is not None
        assert derived.separates
        assert derived.bar == pytest.approx(0.775)
        assert derived.wrong == ("mamba seed 3",)

    def test_what_a_seed_gives_to_all_is_taken_out_of_the_paired_figure(self, made: Make) -> None:
        derived = bars.derive(all_references(made, LITE_GAPS, SEPARATE), LITE_GAPS)
        assert derived is not None
        assert derived.paired == pytest.approx(0.2 / bars.LEAST_SIGMA)  # all moved alike

    def test_twenty_runs_are_needed(self, made: Make) -> None:
        runs = all_references(made, LITE_GAPS, SEPARATE)
        fewer = dict(list(runs.records.items())[:19])
        assert bars.derive(Runs(fewer), LITE_GAPS) is None

    def test_every_reference_is_needed(self, made: Make) -> None:
        scores = {name: score for name, score in SEPARATE.items() if name != "gru"}
        many = [made(e, LITE_GAPS, seed, s) for e, s in scores.items() for seed in range(1, 5)]
        assert bars.derive(Runs.of(many), LITE_GAPS) is None

    def test_sigma_has_a_least(self, made: Make) -> None:
        same = [made(e, LITE_GAPS, seed, s) for e, s in SEPARATE.items() for seed in SEEDS]
        derived = bars.derive(Runs.of(same), LITE_GAPS)
        assert derived is not None
        assert derived.sigma == bars.LEAST_SIGMA


class TestContrasts:
    def test_a_difference_is_paired_by_seed(self, made: Make) -> None:
        runs = Runs.of(
            [made("a", LITE_GAPS, s, 0.5 + 0.1 * s) for s in SEEDS]
            + [made("b", LITE_GAPS, s, 0.3 + 0.1 * s) for s in SEEDS]
        )
        found = contrasts.difference(runs, ["a"], ["b"], LITE_GAPS)
        assert found is not None
        assert found.value.value == pytest.approx(0.2)
        assert found.value.half == pytest.approx(0, abs=1e-9)  # what seeds share cancels
        assert found.seeds == SEEDS

    def test_a_member_without_all_seeds_is_left_out(self, made: Make) -> None:
        runs = Runs.of(
            [made(e, LITE_GAPS, s, 0.5) for e in ("a", "b") for s in SEEDS]
            + [made("c", LITE_GAPS, 1, 0.9)]
        )
        found = contrasts.difference(runs, ["a", "c"], ["b"], LITE_GAPS)
        assert found is not None
        assert found.what.startswith("a less b")
        assert found.value.value == 0

    def test_nothing_to_compare(self, made: Make) -> None:
        runs = Runs.of([made("a", LITE_GAPS, 1, 0.5)])
        assert contrasts.difference(runs, ["a"], ["b"], LITE_GAPS) is None
        assert contrasts.drop(runs, "a", LITE_COPY, LITE_GAPS) is None

    def test_a_drop_is_of_the_same_seeds(self, made: Make) -> None:
        easy = [made("a", LITE_COPY, s, 0.9) for s in (1, 2)]
        hard = [made("a", LITE_GAPS, s, 0.6 + 0.1 * s) for s in (2, 3)]
        found = contrasts.drop(Runs.of(easy + hard), "a", LITE_COPY, LITE_GAPS)
        assert found is not None
        assert (found.seeds, found.value.value) == ((2,), pytest.approx(0.1))

    def test_steps_to(self, a_record: Record) -> None:
        curve = (Point(10, 2.0, 0.5), Point(15, 1.5), Point(20, 1.0, 0.9), Point(30, 1.0, 0.8))
        record = replace(a_record, curve=curve)
        assert contrasts.steps_to(record, 0.9) == 20
        assert contrasts.steps_to(record, 0.95) == 30

    def test_rank_correlation_with_ties(self) -> None:
        assert contrasts.rank_correlation([1, 2, 2, 3], [4, 5, 5, 9]) == 1
        assert contrasts.rank_correlation([1, 2, 3], [3, 2, 1]) == -1


class TestClaims:
    def stalls(self, made: Make, s4d: float, lstm: float) -> claims.Claim:
        scores = {"s4d": s4d, "mamba": 0.99, "lstm": lstm}
        return claims.claims(all_references(made, LITE_COPY, scores), BARS.get)[0]

    def test_s4d_stalls(self, made: Make) -> None:
        assert self.stalls(made, 0.88, 0.92).verdict == "holds"
        assert self.stalls(made, 0.90, 0.92).verdict == "holds in part"
        assert self.stalls(made, 0.90, 0.90).verdict == "does not hold"

    def test_half_of_the_runs_decide_nothing_and_are_shown(self, made: Make) -> None:
        only = Runs.of([made("s4d", LITE_COPY, 1, 0.5)])
        claim = claims.claims(only, BARS.get)[0]
        assert claim.verdict == "undecided"
        assert [f.value.value for f in claim.figures] == [0.5]
        assert "Not every one" in claim.note

    def test_without_runs_nothing_is_claimed(self) -> None:
        found = [
            claim for claim in claims.claims(Runs({}), BARS.get) if "default rate" not in claim.text
        ]
        assert {claim.verdict for claim in found} == {"not run"}

    def test_an_interval_across_zero_decides_nothing(self, made: Make) -> None:
        def verdict(second: tuple[float, float, float]) -> str:
            records = [made("mamba", LITE_GAPS, s, 0.9) for s in SEEDS]
            records += [made("s4d", LITE_GAPS, s, v) for s, v in zip(SEEDS, second, strict=True)]
            (claim,) = (
                c for c in claims.claims(Runs.of(records), BARS.get) if "forgetting" in c.text
            )
            return claim.verdict

        assert verdict((0.70, 0.71, 0.72)) == "holds"
        assert verdict((0.50, 0.90, 1.05)) == "undecided"
        assert verdict((0.95, 0.96, 0.97)) == "does not hold"


class TestGates:
    def probe(self, seed: int, effect: float, change: float) -> Probe:
        seen = Effect(effect, effect - 0.1, effect + 0.1, abs(effect), 0.5)
        signal = Measured("0", "Δ", "write", 4, True, "", {}, seen)
        clamp = Intervention("clamp", "all", 0.5, change, change - 0.01, change + 0.01)
        return Probe(
            *("mamba", "ab" * 32, "selective_copy-v1", "base", "lite", seed, 10, "test", 8),
            *("accuracy", 1.0, 0.125, 1.0, (signal,), (clamp,)),
        )

    @pytest.mark.parametrize(
        ("effects", "verdict"),
        [((1.0, 2.0), "holds"), ((1.0, 0.05), "holds in part"), ((-1.0, 0.0), "does not hold")],
    )
    def test_whether_the_gate_opens(self, effects: tuple[float, float], verdict: str) -> None:
        probes = [self.probe(seed, e, -0.5) for seed, e in enumerate(effects, start=1)]
        claim = gates.claims(probes)[0]
        assert claim.verdict == verdict
        assert claim.figures[0].value.value == pytest.approx(sum(effects) / 2)

    def test_whether_it_carries_the_solution(self) -> None:
        claim = gates.claims([self.probe(1, 1.0, -0.5), self.probe(2, 1.0, -0.3)])[1]
        assert claim.verdict == "holds"
        assert claim.figures[0].seeds == (1, 2)
        assert gates.claims([self.probe(1, 1.0, -0.01)])[1].verdict == "does not hold"

    def test_without_probes(self, tmp_path: Path) -> None:
        assert {claim.verdict for claim in gates.claims(gates.read(tmp_path))} == {"not run"}
        assert gates.read(None) == ()


class TestFrozen:
    def test_every_bar_and_claim_follows_from_the_committed_records(self) -> None:
        assert freeze.verified(None).startswith("verified: ")

    def test_a_bar_that_moved_is_named(self, made: Make) -> None:
        runs = all_references(made, LITE_DISTRACTORS, SEPARATE)
        found = freeze.gather(runs)
        (line,) = (x for x in freeze.verify(found) if x.startswith("distractors-v1:dense"))
        assert "the records give bar 0.8 sigma 0.01" in line

    def test_written_then_verified(self, made: Make, tmp_path: Path) -> None:
        (tmp_path / "selectivbench").mkdir()
        found = freeze.gather(all_references(made, LITE_GAPS, SEPARATE))
        freeze.freeze(found, tmp_path, "2026-01-01", "abc")
        text = (tmp_path / "selectivbench" / "thresholds.json").read_text()
        rows = [line for line in text.splitlines() if '"noisy_gaps-v2", "profile": "lite"' in line]
        assert '"bar": 0.8, "sigma": 0.01' in rows[0]
        assert '"date": "2026-01-01", "commit": "abc"' in rows[0]
        assert freeze.text(found.bars).count("{") == text.count("{")
        assert not [line for line in freeze.verify(found, tmp_path) if "claims.md" in line]
        changed = tmp_path / freeze.CLAIMS
        changed.write_text(changed.read_text().replace("0.900", "0.999"))
        assert [line for line in freeze.verify(found, tmp_path) if "claims.md" in line]

    def test_bars_are_written_only_from_what_their_commit_has(
        self, made: Make, tmp_path: Path
    ) -> None:
        root, records = tmp_path / "root", tmp_path / "records"
        store = RecordStore(records)
        for record in all_references(made, LITE_GAPS, SEPARATE).records.values():
            store.write(record)
        for name in ("selectivbench/code.py", "leaderboard/results/a.json", "README.md"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("1")
        with pytest.raises(UsageError, match="no checkout"):
            freeze.written(records, root)
        git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a"]
        for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
            subprocess.run([*git, *command], check=True)
        (root / "README.md").write_text("2")
        for _ in range(2):  # what it writes itself does not stand in its way
            assert freeze.written(records, root).startswith("wrote ")
        (root / "leaderboard/results/b.json").write_text("1")
        with pytest.raises(UsageError, match=r"1 uncommitted, such as leaderboard/results/b\.json"):
            freeze.written(records, root)

    def test_a_page_that_is_cut_short_is_noticed(self, made: Make, tmp_path: Path) -> None:
        found = freeze.gather(all_references(made, LITE_GAPS, SEPARATE))
        path = tmp_path / freeze.CLAIMS
        path.parent.mkdir()
        path.write_text(page.page(found.derivations, found.claims) + "more\n")
        assert [line for line in freeze.verify(found, tmp_path) if "lines" in line]

    def test_a_difference_is_an_error_for_the_shell(self, made: Make, tmp_path: Path) -> None:
        store = RecordStore(tmp_path)
        for record in all_references(made, LITE_GAPS, SEPARATE).records.values():
            store.write(record)
        with pytest.raises(EvidenceError, match="noisy_gaps-v2:base"):
            freeze.verified(tmp_path)

    def test_an_even_spread_is_shown_run_by_run(self, made: Make) -> None:
        found = freeze.gather(all_references(made, LITE_GAPS, SEPARATE))
        assert "| s4d | not selective | 0.690, 0.700, 0.710 |" in page.page(found.derivations, ())


class TestRescore:
    def test_only_the_verdict_changes(self, made: Make, tmp_path: Path) -> None:
        bar = bar_for(*LITE_COPY)
        assert bar is not None
        store = RecordStore(tmp_path)
        wrong = made("lstm", LITE_COPY, 1, bar.bar - 0.01, status="pass")
        right = made("lstm", LITE_COPY, 2, bar.bar + 0.01, status="pass", cause="")
        for record in (wrong, right):
            store.write(record)
        text = rescore(tmp_path)
        assert f"{wrong.identity.stem}: pass to fail" in text
        assert text.endswith("1 as before")
        again = Record.from_json(store.path(wrong.identity).read_text())
        assert again == replace(wrong, status="fail", cause=again.cause)
        assert rescore(tmp_path) == "2 as before"

    def test_what_was_written_while_it_waited_is_not_lost(
        self, made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bar = bar_for(*LITE_COPY)
        assert bar is not None
        store = RecordStore(tmp_path)
        old = made("lstm", LITE_COPY, 1, bar.bar - 0.01, status="pass")
        new = replace(old, score=bar.bar + 0.01, cause="")
        store.write(old)

        @contextmanager
        def lock(_: RecordStore, name: str) -> Iterator[None]:
            if not name.startswith("validity"):
                store.path(old.identity).write_text(new.to_json())
            yield

        monkeypatch.setattr(RecordStore, "lock", lock)
        assert rescore(tmp_path) == "1 as before"
        assert Record.from_json(store.path(old.identity).read_text()) == new

    def test_an_unreadable_file_is_left_alone(self, tmp_path: Path) -> None:
        file = tmp_path / "x-v1-y.json"
        file.write_text("{")
        assert "left alone" in rescore(tmp_path)
        assert file.read_text() == "{"

    def test_no_torch_is_needed(self) -> None:
        code = (
            "import sys; from selectivbench.cli import main; import selectivbench.evidence.rescore,"
            "selectivbench.evidence.freeze; sys.exit('torch' in sys.modules)"
        )
        assert subprocess.run([sys.executable, "-c", code]).returncode == 0

    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="an existing folder"):
            rescore(tmp_path / "nowhere")


def test_bars_carry_date_and_commit_once_derived() -> None:
    derived = [bar for bar in thresholds.bars() if not bar.provisional]
    assert all(bar.date and bar.commit for bar in derived)
