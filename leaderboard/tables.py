"""The published data: columns once, from which CSV, JSON, parquet and JSON Schema all follow."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from leaderboard.load import Case, Refusal
from leaderboard.rank import Standing

T = TypeVar("T")
Type = Literal["string", "integer", "number", "boolean"]
Row = dict[str, Any]

RESULTS_VERSION = 1


@dataclass(frozen=True)
class Column(Generic[T]):
    """One published column; a value of None is a missing one (empty in CSV, null in JSON)."""

    name: str
    type: Type
    get: Callable[[T], Any]
    about: str


def _seconds(name: str) -> Callable[[Case], Any]:
    return lambda case: case.record.seconds.get(name)


RECORD_COLUMNS: tuple[Column[Case], ...] = (
    Column("entry", "string", lambda c: c.record.identity.entry, "stem of the submission file"),
    Column("name", "string", lambda c: c.record.entry.name, "the submission's own name"),
    Column(
        "kind", "string", lambda c: c.record.entry.kind, "mixer (one layer) or model (all of it)"
    ),
    Column("tags", "string", lambda c: ",".join(c.record.entry.tags), "comma-separated"),
    Column("task", "string", lambda c: c.record.identity.task, "id with version"),
    Column("variant", "string", lambda c: c.record.identity.variant, "of the task"),
    Column("profile", "string", lambda c: c.record.identity.profile, "smoke, lite or paper"),
    Column("seed", "integer", lambda c: c.record.identity.seed, "of data and training"),
    Column("device", "string", lambda c: c.record.identity.device_class, "device class"),
    Column("status", "string", lambda c: c.record.status, "pass and fail are against today's bar"),
    Column("cause", "string", lambda c: c.record.cause, "why there is no figure"),
    Column("metric", "string", lambda c: c.record.metric, "what accuracy, floor, ceiling measure"),
    Column("accuracy", "number", lambda c: c.record.accuracy, "on the test split"),
    Column("floor", "number", lambda c: c.record.floor, "best memoryless predictor"),
    Column("ceiling", "number", lambda c: c.record.ceiling, "Bayes filter"),
    Column("score", "number", lambda c: c.record.score, "(accuracy - floor) / (ceiling - floor)"),
    Column("steps_to_bar", "integer", lambda c: c.steps_to_bar, "first validation at the bar"),
    Column("stopped_at", "integer", lambda c: c.record.stopped_at, "step of an early end"),
    Column("parameters", "integer", lambda c: c.record.parameters, "trained numbers"),
    Column("oversize", "boolean", lambda c: c.record.oversize, "larger than the block budget"),
    Column("state_size", "integer", lambda c: c.record.state_size, "floats a layer and sequence"),
    Column("fit_seconds", "number", _seconds("fit"), "wall clock of the training"),
    Column("evaluate_seconds", "number", _seconds("evaluate"), "wall clock of the predictions"),
    Column("peak_memory", "integer", lambda c: c.record.peak_memory, "bytes, of the child"),
    Column(
        "isolation", "string", lambda c: c.record.isolation, "how the submission was kept apart"
    ),
    Column("checks", "integer", lambda c: len(c.record.validity), "validity checks that were run"),
    Column(
        "checks_broken",
        "string",
        lambda c: ",".join(f.check for f in c.record.validity if not f.ok),
        "those that do not hold, comma-separated",
    ),
    Column("verified", "boolean", lambda c: c.record.verified, "scored by the trusted workflow"),
    Column("created", "string", lambda c: c.moment, "UTC"),
    Column("source_sha256", "string", lambda c: c.record.identity.source_sha256, "of the file"),
    Column("budget", "string", lambda c: c.record.identity.budget_digest, "digest"),
    Column("environment", "string", lambda c: c.record.identity.environment_digest, "digest"),
    Column("key", "string", lambda c: c.path.stem.rpartition("-")[2], "digest of the identity"),
)

STANDING_COLUMNS: tuple[Column[Standing], ...] = (
    Column("entry", "string", lambda s: s.entry.id, "stem of the submission file"),
    Column("name", "string", lambda s: s.entry.name, "the submission's own name"),
    Column("profile", "string", lambda s: s.profile, "smoke, lite or paper"),
    Column("device", "string", lambda s: s.device, "device class"),
    Column("division", "string", lambda s: s.division, "mixer, oversize or model; ranked apart"),
    Column("rank", "integer", lambda s: s.rank, "1 + entries whose interval lies wholly above"),
    Column("overall", "number", lambda s: s.overall and s.overall.value, "mean of four tasks"),
    Column("overall_low", "number", lambda s: s.overall and s.overall.low, "of its 95 % interval"),
    Column(
        "overall_high", "number", lambda s: s.overall and s.overall.high, "of its 95 % interval"
    ),
    Column("parameters", "integer", lambda s: s.parameters, "trained numbers"),
    Column("state_size", "integer", lambda s: s.state_size, "floats a layer and sequence"),
    Column("train_speed", "number", lambda s: s.speed("step"), "reference of the same run = 1"),
    Column("infer_speed", "number", lambda s: s.speed("predict"), "reference of the same run = 1"),
    Column("fit_seconds", "number", lambda s: s.seconds("fit"), "mean wall clock of a training"),
    Column("verified", "string", lambda s: s.verified, "or partly verified, self-reported, marked"),
    Column("marks", "string", lambda s: " ".join(s.marks), "why its scores cannot be believed"),
    Column("date", "string", lambda s: s.date, "day of the newest record, UTC"),
    Column("source_sha256", "string", lambda s: s.source, "of the file"),
)


def record_row(case: Case) -> Row:
    """The published columns of one record."""
    return {column.name: column.get(case) for column in RECORD_COLUMNS}


def standing_row(standing: Standing) -> Row:
    """The published columns of one standing, with its tasks."""
    row: Row = {column.name: column.get(standing) for column in STANDING_COLUMNS}
    row["tasks"] = [
        {
            "task": cell.task,
            "variant": cell.variant,
            "verdict": cell.verdict,
            "score": cell.mean and cell.mean.value,
            "half": cell.mean and cell.mean.half,
            "seeds": len(cell.scores),
            "seeds_wanted": len(cell.wanted),
        }
        for cell in standing.cells.values()
    ]
    return row


def to_json(
    standings: Iterable[Standing], cases: Iterable[Case], refused: Iterable[Refusal]
) -> str:
    """results.json"""
    data = {
        "version": RESULTS_VERSION,
        "standings": [standing_row(s) for s in standings],
        "records": [record_row(c) for c in cases],
        "refused": [{"file": r.file, "reason": r.reason} for r in refused],
    }
    return json.dumps(data, separators=(",", ":"), allow_nan=False) + "\n"


def to_csv(names: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """CSV whose text cells cannot be taken for a formula by a spreadsheet."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def records_csv(cases: Iterable[Case]) -> str:
    """results.csv"""
    return to_csv([c.name for c in RECORD_COLUMNS], (record_row(case).values() for case in cases))


def _cell(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return value
