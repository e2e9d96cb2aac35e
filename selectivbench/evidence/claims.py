"""The published claims, each with our figures and whether it holds at this size."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.resources import files
from math import inf, log
from pathlib import Path
from statistics import fmean

from selectivbench.evidence.claim import ABSTRACT, OURS, TEXTBOOK, Claim, Verdict, verdict_of
from selectivbench.evidence.contrasts import (
    SOLVED,
    Figure,
    difference,
    drop,
    figure,
    label,
    present,
    rank_correlation,
    scores,
    steps_to,
)
from selectivbench.evidence.runs import (
    LITE_COPY,
    LITE_DISTRACTORS,
    LITE_GAPS,
    LITE_MEMORY,
    Case,
    Runs,
    references,
)
from selectivbench.lr_curve import PLATEAU
from selectivbench.lr_curve import read as read_curves

PAPER_COPY = Case("selective_copy-v1", "paper", "base")
LITE_LONGER_GAPS = Case("gap_extrapolation-v2", "lite", "long")
LITE_AMBIGUITIES = tuple(
    Case("memorization-v1", "lite", variant) for variant in ("amb8", "amb12", "amb20")
)
OVERALL = (LITE_COPY, LITE_GAPS, LITE_DISTRACTORS, LITE_LONGER_GAPS)

BarOf = Callable[[Case], float | None]
"""The bar of a case, where one is set."""


def claims(runs: Runs, bar_of: BarOf) -> tuple[Claim, ...]:
    """Every claim, from records and the bars that follow from them."""
    return (
        _stalls(runs, LITE_COPY, bar_of),
        _stalls(runs, PAPER_COPY, bar_of),
        _fewer_steps(runs, LITE_COPY),
        _fewer_steps(runs, PAPER_COPY),
        _forgetting(runs),
        _mixing_and_selectivity(runs, bar_of),
        _mixing_and_generalization(runs),
        _attention(runs),
        _drops(runs, LITE_DISTRACTORS, "distractors"),
        _drops(runs, LITE_GAPS, "random noisy gaps"),
        _slope(runs),
        _size(runs),
        _rates(),
    )


def _stalls(runs: Runs, case: Case, bar_of: BarOf) -> Claim:
    roles = references()["steps"]
    solvers = (roles["fewer"], roles["more"])
    bar = bar_of(case)
    low = runs.scores(roles["stalls"], case)
    high = [runs.scores(entry, case) for entry in solvers]
    text = (
        "A time-invariant S4D stalls on selective copy where LSTM and Mamba solve it, "
        f"{'64' if case.profile == 'lite' else '256'} steps."
    )
    figures = scores(runs, (roles["stalls"], *solvers), case)
    if bar is None or not figures:
        return Claim(text, TEXTBOOK, "not run")
    stalled = max(low.values(), default=inf) < bar
    solved = all(min(values.values(), default=-inf) >= bar for values in high)
    note = f"Bar {bar:.3f}; every seed counts. Below it is not far below: see the figures."
    if case.profile == "paper":
        note += " The textbook reports an accuracy of 0.658 for S4D after 32 epochs."
    if not low or not all(high):
        return Claim(text, TEXTBOOK, "undecided", figures, note + " Not every one of them has run.")
    return Claim(text, TEXTBOOK, verdict_of(stalled, solved), figures, note)


def _fewer_steps(runs: Runs, case: Case) -> Claim:
    roles = references()["steps"]
    by_entry = [runs.of_case(roles[role], case) for role in ("more", "fewer")]
    seeds = sorted(by_entry[0].keys() & by_entry[1].keys())
    text = f"Mamba needs fewer steps than the LSTM, {label(case)}."
    if not seeds:
        return Claim(text, TEXTBOOK, "not run")
    steps = [{s: steps_to(found[s], SOLVED) for s in seeds} for found in by_entry]
    saved = figure(
        f"steps to {SOLVED} accuracy, LSTM less Mamba",
        {s: steps[0][s] - steps[1][s] for s in seeds},
    )
    figures = (figure("LSTM, steps", steps[0]), figure("Mamba, steps", steps[1]), saved)
    note = "Steps are known to the nearest validation; a training that does not get there counts whole."
    return Claim(text, TEXTBOOK, _sign(saved), figures, note)


def _forgetting(runs: Runs) -> Claim:
    cases = (LITE_GAPS, LITE_DISTRACTORS)
    pairs = references()["forgetting"]["pairs"]
    found = [difference(runs, [a], [b], case) for a, b in pairs for case in cases]
    return _all_positive(
        "Gating and rapid forgetting mechanisms facilitate recall.",
        ABSTRACT,
        found,
        "Pairs that differ by a decay computed from the input; difference in score.",
    )


def _mixing_and_selectivity(runs: Runs, bar_of: BarOf) -> Claim:
    groups = references()["mixing"]
    text = "In-state channel mixing is unnecessary for selectivity …"
    figures: list[Figure] = []
    passed = []
    for case in (LITE_COPY, LITE_GAPS, LITE_DISTRACTORS):
        bar, shown = bar_of(case), scores(runs, groups["diagonal"], case)
        if bar is None or not shown:
            return Claim(text, ABSTRACT, "not run")
        best = max(shown, key=lambda f: f.value.value)
        figures.append(best)
        passed.append(best.value.value >= bar)
    note = "The best entry with a diagonal (or scalar) transition on each task, against the bar."
    return Claim(text, ABSTRACT, verdict_of(*passed), tuple(figures), note)


def _mixing_and_generalization(runs: Runs) -> Claim:
    groups = references()["mixing"]
    cases = (LITE_LONGER_GAPS, LITE_GAPS)
    found = [difference(runs, groups["mixes"], groups["diagonal"], case) for case in cases]
    return _all_positive(
        "… but critical for generalization.",
        ABSTRACT,
        found[:1],
        "Gaps longer than in training; the second figure, for comparison, is at trained gaps.",
        found[1:],
    )


def _attention(runs: Runs) -> Claim:
    groups = references()["attention"]
    text = "Softmax attention remains dominant due to its memory capacity scaling with sequence length."
    best: list[Figure] = []
    wins = []
    for case in (*LITE_AMBIGUITIES, *OVERALL[:3]):
        ours = [scores(runs, groups[kind], case) for kind in ("softmax", "recurrent")]
        if not all(ours):
            continue
        top = [max(found, key=lambda f: f.value.value) for found in ours]
        best += top
        wins.append(top[0].value.value > top[1].value.value)
    note = "The best softmax entry and the best linear recurrent one on each task."
    return Claim(text, ABSTRACT, verdict_of(*wins) if wins else "not run", tuple(best), note)


def _drops(runs: Runs, hard: Case, what: str) -> Claim:
    groups = references()
    entries = runs.entries(hard)
    lost = {e: drop(runs, e, LITE_MEMORY, hard) for e in entries}
    kept = {e: f for e, f in lost.items() if f is not None}
    text = f"Selective references lose less to {what} than non-selective ones, same seeds."
    parts = [
        [kept[e].value.value for e in names if e in kept]
        for names in (groups["selective"], groups["not_selective"]["default"])
    ]
    figures = tuple(sorted(kept.values(), key=lambda f: f.value.value))
    note = f"Paired drop in score from {label(LITE_MEMORY)} to {label(hard)}, smallest first. "
    note += "An entry that cannot memorize has little to lose."
    if not all(parts):
        return Claim(text, OURS, "not run", figures, note)
    return Claim(text, OURS, verdict_of(max(parts[0]) < min(parts[1])), figures, note)


def _slope(runs: Runs) -> Claim:
    entries = [e for e in runs.entries(LITE_AMBIGUITIES[-1]) if runs.scores(e, LITE_AMBIGUITIES[0])]
    figures = [f for e in entries for case in LITE_AMBIGUITIES for f in scores(runs, [e], case)]
    means = [
        [fmean(found.values()) for case in LITE_AMBIGUITIES if (found := runs.scores(e, case))]
        for e in entries
    ]
    text = "Memorization gets harder with ambiguity."
    full = [m for m in means if len(m) == len(LITE_AMBIGUITIES)]
    if not full:
        return Claim(text, ABSTRACT, "not run")
    falls = [m == sorted(m, reverse=True) for m in full]
    return Claim(
        text, ABSTRACT, verdict_of(*falls), tuple(figures), "Score at ambiguity 8, 12, 20."
    )


def _size(runs: Runs) -> Claim:
    """A finding, not a claim of anybody: what score goes with at equal parameters."""
    rows = []
    for entry in runs.entries(LITE_COPY):
        records = [runs.of_case(entry, case) for case in OVERALL]
        sizes = [r.state_size for found in records for r in found.values() if r.state_size]
        if all(records) and sizes:
            overall = fmean(fmean(runs.scores(entry, case).values()) for case in OVERALL)
            rows.append((overall, log(max(sizes)), entry))
    text = "At equal parameters, the score goes with the size of the state."
    if len(rows) < 4:
        return Claim(text, OURS, "not run")
    rho = rank_correlation([row[0] for row in rows], [row[1] for row in rows])
    note = f"Spearman's rho of overall score and state size over {len(rows)} entries: {rho:.2f}."
    verdict: Verdict = "holds" if rho > 0.5 else "does not hold"
    return Claim(text, OURS, verdict, (), note)


def _rates() -> Claim:
    """From learning-rate curves that ``selectivbench lr-curve --write`` keeps beside this file."""
    text = "The default rate of each reference lies inside its own plateau."
    path = Path(str(files("selectivbench.evidence"))) / "lr_curves.json"
    curves = read_curves(path) if path.is_file() else ()
    if not curves:
        return Claim(text, OURS, "not run")
    inside = [curve.inside for curve in curves]
    rows = (
        f"{c.entry} ({c.task.rpartition('-v')[0]}): default {c.default:g}, plateau "
        f"{', '.join(f'{lr:g}' for lr in c.plateau)}{'' if c.inside else ' (outside)'}"
        for c in curves
    )
    note = f"Within {PLATEAU} of the best validation figure. " + "; ".join(rows) + "."
    groups = references()
    everyone = {*groups["selective"], *groups["not_selective"]["default"]}
    missing = sorted(everyone - {curve.entry for curve in curves})
    if missing:
        note += f" Not measured: {', '.join(missing)}."
    verdict: Verdict = "undecided" if missing and all(inside) else verdict_of(*inside)
    return Claim(text, OURS, verdict, (), note)


def _all_positive(
    text: str,
    source: str,
    found: Iterable[Figure | None],
    note: str,
    beside: Iterable[Figure | None] = (),
) -> Claim:
    figures = present(found)
    if not figures:
        return Claim(text, source, "not run")
    signs = [_sign(f) for f in figures]
    verdict: Verdict = signs[0] if len(set(signs)) == 1 else "holds in part"
    return Claim(text, source, verdict, (*figures, *present(beside)), note)


def _sign(difference: Figure) -> Verdict:
    """Whether the whole interval is above 0, or below; a single seed decides nothing."""
    value = difference.value
    if value.half is None or value.low <= 0 <= value.high:
        return "undecided"
    return "holds" if value.low > 0 else "does not hold"
