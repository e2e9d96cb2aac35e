"""What an audit found, and its JSON file: scores on public seeds next to those on secret ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from selectivbench.errors import RecordError, explain

COMMITMENT = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Gap:
    """Mean scores of one file on one task; ``marked`` where public is better by too much.

    allowed: the largest difference that is put down to luck.
    """

    entry: str
    source_sha256: str
    task: str
    variant: str
    profile: str
    device_class: str
    budget_digest: str
    public: float
    audit: float
    allowed: float

    @property
    def gap(self) -> float:
        """Public less audit."""
        return self.public - self.audit

    @property
    def marked(self) -> bool:
        """Whether the public score cannot be believed."""
        return self.gap > self.allowed

    @property
    def about(self) -> tuple[str, ...]:
        """What is compared, without the figures."""
        return tuple(value for value in asdict(self).values() if isinstance(value, str))

    def __str__(self) -> str:
        """The figures in words."""
        figures = f"public {self.public:.3f}, audit {self.audit:.3f}, allowed {self.allowed:.3f}"
        return f"{self.task}: {figures}"


@dataclass(frozen=True)
class Audited:
    """All gaps that one salt gave; the commitment tells the salt apart and does not tell it."""

    commitment: str
    isolation: str
    gaps: tuple[Gap, ...]

    def with_gaps(self, gaps: Iterable[Gap]) -> Audited:
        """With newer gaps in the place of older ones about the same."""
        by_what = {gap.about: gap for gap in (*self.gaps, *gaps)}
        return replace(self, gaps=tuple(by_what[about] for about in sorted(by_what)))

    def to_json(self) -> str:
        """The file's text; difference and mark are in it for readers, and made anew when it is read."""
        rows = [{**asdict(gap), "gap": gap.gap, "marked": gap.marked} for gap in self.gaps]
        data = {"commitment": self.commitment, "isolation": self.isolation, "gaps": rows}
        return json.dumps(data, indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Audited:
        """Read it back; RecordError where it is no audit."""
        try:
            data = json.loads(text)
            gaps = tuple(_gap(row) for row in data["gaps"])
            isolation, commitment = _text("isolation", data["isolation"]), data["commitment"]
            if not COMMITMENT.fullmatch(commitment):
                raise ValueError(explain("commitment", commitment, "64 hex digits"))
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise RecordError(f"not an audit: {type(error).__name__}: {error}") from error
        return cls(commitment, isolation, gaps)


def _gap(row: dict[str, Any]) -> Gap:
    values = {field.name: row[field.name] for field in fields(Gap)}
    for name in ("public", "audit", "allowed"):
        number = values.pop(name)
        if type(number) not in (int, float) or not abs(number) < 1e15:
            raise ValueError(explain(f"audit {name}", number, "a finite number"))
        values[name] = float(number)
    texts = {name: _text(name, value) for name, value in values.items() if type(value) is not float}
    return Gap(**{**values, **texts})


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 100 or not value.isprintable():
        raise ValueError(explain(f"audit {name}", value, "a text of at most 100 characters"))
    return value
