"""Committed records as evidence: the newest full run of each entry, case and seed."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from selectivbench.errors import RecordError, UsageError, explain
from selectivbench.profiles import PROFILES
from selectivbench.record import Record

DEVICE = "cpu"
"""The device class that the bars are set on."""


class Case(NamedTuple):
    """What a bar belongs to."""

    task: str
    profile: str
    variant: str


LITE_COPY = Case("selective_copy-v1", "lite", "base")
LITE_GAPS = Case("noisy_gaps-v2", "lite", "long")
LITE_DISTRACTORS = Case("distractors-v1", "lite", "dense")
LITE_MEMORY = Case("memorization-v1", "lite", "amb8")


@cache
def references() -> Mapping[str, Any]:
    """Which entries stand for what; references.toml."""
    text = files("selectivbench.evidence").joinpath("references.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@dataclass(frozen=True)
class Runs:
    """Records by entry, case and seed; only valid ones with a score, of a full budget."""

    records: Mapping[tuple[str, Case, int], Record]

    @classmethod
    def load(cls, folder: Path | None = None) -> Runs:
        """Every usable record of a folder (default: the committed results)."""
        return cls.of(_records(committed() if folder is None else folder))

    @classmethod
    def of(cls, records: Iterable[Record]) -> Runs:
        """Of records; where a case was run more than once, the newest counts."""
        kept: dict[tuple[str, Case, int], Record] = {}
        for record in sorted(records, key=lambda record: record.created):
            who = record.identity
            if _is_valid(record) and who.device_class == DEVICE and _is_full(record):
                case = Case(who.task, who.profile, who.variant)
                kept[who.entry, case, who.seed] = record
        return cls(kept)

    def of_case(self, entry: str, case: Case) -> Mapping[int, Record]:
        """Records of one entry by seed, in the order of the seeds."""
        found = {s: r for (e, c, s), r in self.records.items() if (e, c) == (entry, case)}
        return dict(sorted(found.items()))

    def scores(self, entry: str, case: Case) -> Mapping[int, float]:
        """Scores of one entry by seed."""
        found = self.of_case(entry, case)
        return {seed: r.score for seed, r in found.items() if r.score is not None}

    def entries(self, case: Case) -> Sequence[str]:
        """Every entry that has a run of a case."""
        return sorted({entry for entry, other, _ in self.records if other == case})


def committed() -> Path:
    """leaderboard/results beside this package, found without importing anything of it."""
    spec = find_spec("leaderboard")
    if spec is None or spec.origin is None:
        allowed = "leaderboard/results of an installed project"
        raise UsageError(explain("committed records", "none", allowed, "give --records FOLDER"))
    return Path(spec.origin).parent / "results"


def _records(folder: Path) -> Iterator[Record]:
    if not folder.is_dir():
        raise UsageError(explain("records folder", str(folder), "an existing folder"))
    for path in sorted(folder.glob("*-v*-*.json")):
        try:
            yield Record.from_json(path.read_text(encoding="utf-8"))
        except (RecordError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{path}: {error} Evidence must be readable: mend or remove it."
            ) from error


def _is_valid(record: Record) -> bool:
    """Whether there is a score that can be believed."""
    sound = all(finding.ok for finding in record.validity)
    return record.score is not None and record.status in ("pass", "fail") and sound


def _is_full(record: Record) -> bool:
    """Whether the training had the whole budget of its profile, and none of its own sizes."""
    profile = PROFILES.get(record.identity.profile)
    if profile is None or record.custom is not None:
        return False
    steps = {plan.budget.steps for plan in (profile.default_plan, *profile.plans.values())}
    return record.budget.get("budget", {}).get("steps") in steps
