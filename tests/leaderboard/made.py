"""Synthetic records for the site's tests. Nothing here was measured; nothing of it is committed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from leaderboard.rank import OVERALL, VARIANT
from selectivbench.audited import Gap
from selectivbench.record import (
    CHECKS,
    Entry,
    Evaluation,
    Finding,
    Identity,
    Point,
    Record,
    digest,
)

SOURCE = "import torch.nn as nn\n\n\nclass Mixer(nn.Identity):\n    pass\n"


def source_of(entry: str) -> str:
    """A submission text that differs for each entry."""
    return f"{SOURCE}\nNAME = {entry!r}\n"


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def record(
    entry: str = "lstm",
    task: str = "selective_copy-v1",
    seed: int = 1,
    score: float | None = 0.9,
    status: Any = "pass",
    *,
    variant: str | None = None,
    profile: str = "lite",
    device: str = "cpu",
    created: str = "2026-03-01T10:00:00+00:00",
    source: str | None = None,
    points: int = 4,
    budget: str = "full",
    about: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Record:
    """One record with a floor of 0.2, a ceiling of 1 and the accuracy that its score asks for;
    of the variant that counts, unless it is given."""
    text = source_of(entry) if source is None else source
    which = VARIANT.get((profile, task), "base") if variant is None else variant
    who = Identity(
        *(entry, sha(text), task, which, profile, seed, device),
        budget_digest=digest({"steps": budget}),
        environment_digest=digest({"torch": "2"}),
    )
    measured = {} if score is None else figures(task, score, points)
    described: dict[str, Any] = {"id": entry, "name": entry.upper(), "kind": "mixer"}
    said = Entry(**{**described, **(about or {})})
    return Record(who, said, status, **{**CONSTANT, "created": created, **measured, **fields})


CONSTANT: Mapping[str, Any] = {
    "parameters": 57_000,
    "state_size": 96,
    "seconds": {"build": 0.1, "fit": 30.5, "evaluate": 1.5},
    "environment": {"python": "3.11.2", "torch": "2.13.0"},
    "machine": {"cpu": "x86_64"},
    "budget": {"steps": 700},
}


CHECKED = tuple(Finding(check, True, "fine") for check in sorted(CHECKS))
"""What a run with every validity check leaves where all of them hold."""


def gap(record: Record, public: float, audit: float) -> Gap:
    """What an audit says of a record's file, with a tenth for luck."""
    who = record.identity
    about = (who.entry, who.source_sha256, who.task, who.variant, who.profile, who.device_class)
    return Gap(*about, who.budget_digest, public, audit, 0.1)


def figures(task: str, score: float, points: int) -> dict[str, Any]:
    """What a case that got that far has measured."""
    accuracy = min(1.0, max(0.0, 0.2 + 0.8 * score))
    steps = range(1, points + 1)
    return {
        "accuracy": accuracy,
        "floor": 0.2,
        "ceiling": 1.0,
        "score": (accuracy - 0.2) / 0.8,
        "evaluations": evaluations(task, accuracy),
        "curve": tuple(Point(100 * i, 2.0 / i, accuracy * i / points) for i in steps),
    }


def evaluations(task: str, accuracy: float) -> tuple[Evaluation, ...]:
    """One split, or three gaps that get harder."""
    if not task.startswith("gap_"):
        return (Evaluation("test", accuracy, 0.2, 1.0),)
    return tuple(
        Evaluation(f"test-gap{gap}", min(1.0, max(0.0, accuracy + shift)), 0.2, 1.0)
        for gap, shift in ((10, 0.0), (20, 0.0), (40, 0.0))
    )


def suite(entry: str, score: float, spread: float = 0.01, **fields: Any) -> list[Record]:
    """The four overall tasks with seeds 1, 2, 3."""
    return [
        record(entry, task, seed, score + spread * (seed - 2), **fields)
        for task in OVERALL
        for seed in (1, 2, 3)
    ]


def write(
    folder: Path, records: Iterable[Record], source: Callable[[str], str] = source_of
) -> Path:
    """Records and their sources, as a run leaves them."""
    (folder / "sources").mkdir(parents=True, exist_ok=True)
    for made in records:
        (folder / f"{made.identity.stem}.json").write_text(made.to_json(), encoding="utf-8")
        text = source(made.identity.entry)
        if sha(text) == made.identity.source_sha256:
            (folder / "sources" / f"{sha(text)}.py").write_text(text, encoding="utf-8")
    return folder
