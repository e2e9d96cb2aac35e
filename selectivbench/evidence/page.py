"""docs/claims.md, written from the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from selectivbench.evidence.bars import Derivation
from selectivbench.evidence.claim import Claim
from selectivbench.evidence.contrasts import Figure, label

HEAD = """\
# Bars and claims, with their evidence

Written by `selectivbench evidence write` from the committed records in `leaderboard/results`;
`selectivbench evidence verify` derives every figure of this page, and every bar, anew. Scores are
(accuracy - floor) / (ceiling - floor). Intervals are 95 %, over seeds (Student's t, so they are wide at
three seeds). A claim that does not hold at this size is reported so.
"""

BARS = """\
A bar is the midpoint between the worst selective and the best non-selective reference. Sigma is the
spread of a run around its entry's mean, pooled over these references, and at least 0.005; it holds
what a seed's grammar gives to all entries alike (the paired figure takes that out). Where the groups
are less than three sigma apart, no bar tells them apart: there it is a bar for learning at all, three
sigma below the worst selective reference. Bars of cases without twenty reference runs are
provisional, marked so in thresholds.json, and not shown here.
"""


def page(derivations: Sequence[Derivation], claims: Sequence[Claim]) -> str:
    """The whole page, Markdown."""
    parts = [HEAD, "## Claims\n", *_table(claims), "", "## Figures\n", *_figures(claims)]
    parts += ["## Bars\n", *_bars(derivations)]
    return "\n".join(parts).rstrip() + "\n"


def _table(claims: Iterable[Claim]) -> Iterator[str]:
    yield "| | claim | from | verdict |"
    yield "|---:|---|---|---|"
    for number, claim in enumerate(claims, start=1):
        yield f"| {number} | {claim.text} | {claim.source} | **{claim.verdict}** |"


def _figures(claims: Iterable[Claim]) -> Iterator[str]:
    for number, claim in enumerate(claims, start=1):
        if not claim.figures and not claim.note:
            continue
        yield f"### {number}. {claim.text}\n"
        if claim.note:
            yield f"{claim.note}\n"
        if claim.figures:
            yield "| what | mean | 95 % interval | seeds |"
            yield "|---|---:|---:|---|"
            yield from map(_row, claim.figures)
            yield ""


def _row(figure: Figure) -> str:
    value = figure.value
    places = 0 if abs(value.value) >= 10 else 3
    interval = "-" if value.half is None else f"{value.low:.{places}f} to {value.high:.{places}f}"
    seeds = ", ".join(map(str, figure.seeds))
    return f"| {figure.what} | {value.value:.{places}f} | {interval} | {seeds} |"


def _bars(derivations: Iterable[Derivation]) -> Iterator[str]:
    yield BARS
    for derived in derivations:
        worst, best = derived.worst, derived.best
        yield f"### {label(derived.case)}: bar {derived.bar:.3f}\n"
        wrong = (
            f" On the wrong side of the bar: {', '.join(derived.wrong)}." if derived.wrong else ""
        )
        verdict = (
            "" if derived.separates else " **It does not separate: a bar for learning at all.**"
        )
        yield (
            f"Worst selective {worst.entry} {worst.mean:.3f}, best non-selective {best.entry} "
            f"{best.mean:.3f}, sigma {derived.sigma:.3f} over {derived.runs} runs: apart by "
            f"**{derived.separation:.1f} sigma** ({derived.paired:.1f} paired by seed)."
            f"{verdict}{wrong}\n"
        )
        yield "| reference | group | score by seed |"
        yield "|---|---|---|"
        for group, runs in (
            ("selective", derived.selective),
            ("not selective", derived.not_selective),
        ):
            for entry, scores in runs.items():
                values = ", ".join(f"{score:.3f}" for score in scores.values())
                yield f"| {entry} | {group} | {values} |"
        yield ""
