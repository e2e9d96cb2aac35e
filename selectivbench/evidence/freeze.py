"""Freeze what the records say into thresholds.json and docs/claims.md; verify that it still holds."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from selectivbench import thresholds
from selectivbench.errors import EvidenceError, UsageError, explain
from selectivbench.evidence import gates
from selectivbench.evidence.bars import LEARNING, Derivation, derive
from selectivbench.evidence.claim import Claim
from selectivbench.evidence.claims import claims
from selectivbench.evidence.page import page
from selectivbench.evidence.runs import Case, Runs
from selectivbench.thresholds import Bar

VERSION = 2
"""Of the form of thresholds.json."""
CLAIMS = Path("docs/claims.md")
BARS = Path("selectivbench/thresholds.json")
SOURCES = ("selectivbench", "leaderboard/results", str(gates.FOLDER), f":!{BARS}")
"""What bars and claims are derived from, as git takes paths; not what is written."""


@dataclass(frozen=True)
class Evidence:
    """Everything that the committed records imply."""

    bars: tuple[Bar, ...]
    derivations: tuple[Derivation, ...]
    claims: tuple[Claim, ...]


def verified(records: Path | None, root: Path | None = None) -> str:
    """Derive everything and compare; EvidenceError lists what differs.

    records: a folder (default: the committed results). root: of a checkout (default: the one that this
    package lies in; an installed package has none, and only its bars are compared).
    """
    where = checkout() if root is None else root
    found = gather(Runs.load(records), where)
    wrong = verify(found, where)
    if wrong:
        raise EvidenceError(
            "the records say something else than what is frozen:\n" + "\n".join(wrong)
        )
    bars = len(found.derivations)
    rest = f"{len(found.bars) - bars} bars are provisional"
    page_too = "" if where is None else f", {len(found.claims)} claims"
    return f"verified: {bars} bars{page_too}; {rest}"


def written(records: Path | None, root: Path | None = None) -> str:
    """Freeze what the records say, with today's date and the commit that is checked out.

    UsageError where records or code are not as committed: a bar keeps the commit that it was given.
    """
    where = checkout() if root is None else root
    commit = [] if where is None else _git(where, "rev-parse", "--short", "HEAD")
    if where is None or not commit:
        raise UsageError(explain("--root", "no checkout", "the folder of a git checkout"))
    if changed := _git(where, "status", "--porcelain", "--", *SOURCES):
        got = f"{len(changed)} uncommitted, such as {changed[0][3:]}"
        remedy = "commit them first, since bars name the commit that they were derived from"
        raise UsageError(explain("records and code", got, "all committed", remedy))
    today = datetime.now(UTC).date().isoformat()
    return freeze(gather(Runs.load(records), where), where, today, commit[0])


def _git(root: Path, *arguments: str) -> list[str]:
    """Lines of an answer; none where the folder is no checkout."""
    command = ["git", "-C", str(root), *arguments]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    return asked.stdout.splitlines()


def checkout() -> Path | None:
    """The checkout that this package lies in, or None where it was installed."""
    root = Path(__file__).parents[2]
    return root if (root / "pyproject.toml").is_file() else None


def gather(runs: Runs, root: Path | None = None) -> Evidence:
    """Derive every bar anew; one that has too few runs stays as it is frozen, marked provisional.

    root: of a checkout, for the probes; without one there are none.
    """
    bars = thresholds.bars()
    derived = [(bar, derive(runs, _case(bar))) for bar in bars]
    found = tuple(_kept(bar) if d is None else _bar(bar, d) for bar, d in derived)
    bar_of = {_case(bar): bar.bar for bar in found}.get
    return Evidence(
        bars=found,
        derivations=tuple(d for _, d in derived if d is not None),
        claims=(*claims(runs, bar_of), *gates.claims(gates.read(root))),
    )


def freeze(evidence: Evidence, root: Path, date: str, commit: str) -> str:
    """Write both files below the root of a checkout; bars that did not move keep date and commit."""
    old = {_case(bar): bar for bar in thresholds.bars()}
    bars = [
        b if b == old.get(_case(b)) else replace(b, date=date, commit=commit) for b in evidence.bars
    ]
    path = root / BARS
    path.write_text(text(bars), encoding="utf-8")
    (root / CLAIMS).parent.mkdir(exist_ok=True)
    (root / CLAIMS).write_text(page(evidence.derivations, evidence.claims), encoding="utf-8")
    return f"wrote {path} and {root / CLAIMS}"


def verify(evidence: Evidence, root: Path | None = None) -> tuple[str, ...]:
    """What differs between the frozen files and the records; nothing where all holds.

    root: of a checkout, for docs/claims.md; without it only the bars are compared.
    """
    return (*_moved(evidence.bars), *(() if root is None else _page_differs(evidence, root)))


def text(bars: Iterable[Bar]) -> str:
    """thresholds.json: one bar a line."""
    rows = ",\n  ".join(json.dumps(asdict(bar), ensure_ascii=False) for bar in bars)
    return f'{{\n "version": {VERSION},\n "bars": [\n  {rows}\n ]\n}}\n'


def _case(bar: Bar) -> Case:
    return Case(bar.task, bar.profile, bar.variant)


def _moved(bars: Iterable[Bar]) -> Iterator[str]:
    frozen = {_case(bar): bar for bar in thresholds.bars()}
    for bar in bars:
        old = frozen[_case(bar)]
        if (old.bar, old.sigma, old.provisional) != (bar.bar, bar.sigma, bar.provisional):
            was = f"bar {old.bar} sigma {old.sigma}{' provisional' * old.provisional}"
            now = f"bar {bar.bar} sigma {bar.sigma}{' provisional' * bar.provisional}"
            yield f"{bar.task}:{bar.variant} ({bar.profile}): frozen {was}, the records give {now}"


def _page_differs(evidence: Evidence, root: Path) -> Iterator[str]:
    path = root / CLAIMS
    wanted = page(evidence.derivations, evidence.claims).splitlines()
    there = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    for number, (old, new) in enumerate(zip(there, wanted, strict=False), start=1):
        if old != new:
            yield f"{path}:{number}: frozen {old!r}, the records give {new!r}"
            return
    if len(there) != len(wanted):
        yield f"{path}: frozen {len(there)} lines, the records give {len(wanted)}"


def _kept(bar: Bar) -> Bar:
    return replace(bar, provisional=True)


def _bar(bar: Bar, derived: Derivation) -> Bar:
    return replace(
        bar, bar=derived.bar, sigma=derived.sigma, provisional=False, evidence=sentence(derived)
    )


def sentence(derived: Derivation) -> str:
    """The derivation in words, for whoever reads the file."""
    worst, best = derived.worst, derived.best
    groups = (
        f"{worst.entry} {worst.mean:.3f} (lowest selective mean) and {best.entry} {best.mean:.3f} "
        f"(highest non-selective one), {derived.separation:.1f} sigma apart over {derived.runs} runs"
    )
    if derived.separates:
        return f"midpoint of {groups}"
    return f"for learning at all, {LEARNING:g} sigma below the first; does not separate {groups}"
