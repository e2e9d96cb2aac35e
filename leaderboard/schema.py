"""The JSON Schema of results.json and the parquet table, from the same columns as the CSV."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Any

from leaderboard.load import Case
from leaderboard.tables import (
    RECORD_COLUMNS,
    RESULTS_VERSION,
    STANDING_COLUMNS,
    Column,
    record_row,
)

Node = dict[str, Any]


def json_schema() -> str:
    """results.schema.json (draft 2020-12)."""
    standing = _object(STANDING_COLUMNS)
    standing["properties"]["tasks"] = {"type": "array", "items": _cell()}
    standing["required"].append("tasks")
    refusal: Node = {"type": "object", "required": ["file", "reason"]}
    refusal["properties"] = {"file": {"type": "string"}, "reason": {"type": "string"}}
    data = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "SelectivBench results",
        "type": "object",
        "additionalProperties": False,
        "required": ["version", "standings", "records", "refused"],
        "properties": {
            "version": {"const": RESULTS_VERSION},
            "standings": {"type": "array", "items": standing},
            "records": {"type": "array", "items": _object(RECORD_COLUMNS)},
            "refused": {"type": "array", "items": refusal},
        },
    }
    return json.dumps(data, indent=1) + "\n"


def _object(columns: Sequence[Column[Any]]) -> Node:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [column.name for column in columns],
        "properties": {
            column.name: {"type": [column.type, "null"], "description": column.about}
            for column in columns
        },
    }


def _cell() -> Node:
    """One task variant of a standing."""
    properties: Node = {name: {"type": "string"} for name in ("task", "variant", "verdict")}
    properties |= {name: {"type": ["number", "null"]} for name in ("score", "half")}
    properties |= {name: {"type": "integer"} for name in ("seeds", "seeds_wanted")}
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }


def has_parquet() -> bool:
    """Whether pyarrow is installed (extra ``site``); without it the site has no parquet file."""
    return find_spec("pyarrow") is not None


def parquet(cases: Iterable[Case]) -> bytes:
    """results.parquet; missing values are null, never NaN or zero."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {
        "string": pa.string(),
        "integer": pa.int64(),
        "number": pa.float64(),
        "boolean": pa.bool_(),
    }
    schema = pa.schema([(column.name, types[column.type]) for column in RECORD_COLUMNS])
    table = pa.Table.from_pylist([record_row(case) for case in cases], schema=schema)
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()
