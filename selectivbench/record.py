"""The result of one case, and its JSON file.

A record's *identity* is everything that decides what the result would be; its digest is the record's
key, its file name and its cache key at once. Times, verdict and machine are not part of it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, Protocol, get_args, get_origin

from selectivbench.anatomy import Anatomy, Facet, Mistake
from selectivbench.annotations import tests_of
from selectivbench.errors import RecordError, Status, explain

SCHEMA_VERSION = 1

STATUSES: tuple[str, ...] = get_args(Status)
CHECKS = (
    "causality",
    "batch-independence",
    "determinism",
    "similarity",
    "embedded-weights",
    "state-bound",
    "shuffled-labels",
)
"""Every validity check, in the order in which they run; a verified result has them all."""
REUSED = ("pass", "fail", "invalid")
"""Statuses that a second run takes from the cache; any other is tried again."""


@dataclass(frozen=True)
class Identity:
    """What makes two results the same result."""

    entry: str
    source_sha256: str
    task: str
    variant: str
    profile: str
    seed: int
    device_class: str
    budget_digest: str
    environment_digest: str

    @property
    def key(self) -> str:
        """24 hex digits that name this identity."""
        return digest(asdict(self))

    @property
    def stem(self) -> str:
        """File name without its ending; readable first, unique last."""
        parts = (self.entry, self.task, self.variant, self.profile, f"seed{self.seed}")
        return "-".join((*parts, self.key))

    @property
    def examined(self) -> dict[str, str]:
        """What findings of validity checks are about: any task, seed and budget of it."""
        return {
            "source_sha256": self.source_sha256,
            "profile": self.profile,
            "device_class": self.device_class,
            "environment_digest": self.environment_digest,
        }


@dataclass(frozen=True)
class Entry:
    """What the submission file says of itself (its literals, read without running it)."""

    id: str
    name: str
    kind: Literal["mixer", "model"]
    paper: str = ""
    authors: str = ""
    tags: tuple[str, ...] = ()
    expected_fail: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evaluation:
    """Figure of one test split, with its own floor and ceiling, in the unit of the metric."""

    split: str
    accuracy: float
    floor: float
    ceiling: float
    anatomy: Anatomy | None = None
    """Which elements were right; None in older records, and where the figure counts no hits."""
    scored: bool = True
    """Whether the split counts for the task's figure, or is shown beside it."""


@dataclass(frozen=True)
class Point:
    """One point of the learning curve: mean training loss (nats) up to ``step``, validation figure."""

    step: int
    loss: float
    accuracy: float | None = None


@dataclass(frozen=True)
class Finding:
    """What one validity check found; ``text`` says it with numbers."""

    check: str
    ok: bool
    text: str

    def __str__(self) -> str:
        """Which check, whether it holds, and the numbers."""
        return f"{self.check} {'holds' if self.ok else 'does not hold'}: {self.text}"


@dataclass(frozen=True)
class Record:
    """One case's result. Figures are None where the case did not get that far."""

    identity: Identity
    entry: Entry
    status: Status
    cause: str = ""
    metric: str = "accuracy"
    accuracy: float | None = None
    floor: float | None = None
    ceiling: float | None = None
    score: float | None = None
    evaluations: tuple[Evaluation, ...] = ()
    curve: tuple[Point, ...] = ()
    validation: Evaluation | None = None
    """The last one, with the curve's floor and ceiling; None where another task's training is used."""
    stopped_at: int | None = None
    """The step at which the profile's rule ended the training early; None where it ran to its end."""
    parameters: int | None = None
    """As the harness counted them in the submission's process; compare ``saved_numbers``."""
    oversize: bool = False
    """The mixer alone is larger than the profile's block budget; ranked apart."""
    saved_numbers: int | None = None
    """Numbers in the trained state, buffers too, counted by trusted code; None where none was saved."""
    state_size: int | None = None
    """Floats carried per layer and sequence, as the submission's ``state_size`` says."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """On the controller's clock: build, fit, evaluate; step and predict (one sequence), and the same
    two of the yardstick in the same run, reference_step and reference_predict. cpu: of the child."""
    peak_memory: int | None = None
    """Bytes that the child took at its peak, on top of its baseline."""
    baseline_memory: int | None = None
    """Bytes resident before a line of the submission ran: interpreter, torch, fla."""
    isolation: str = "process"
    """none, process, landlock or namespaces: levels 0 to 3, each with all before it."""
    isolation_notes: tuple[str, ...] = ()
    """What this machine could not give."""
    validity: tuple[Finding, ...] = ()
    """What the validity checks of the submission found, in this profile and environment; empty where
    none was run. One that does not hold makes the result invalid."""
    probe: Mapping[str, Any] | None = None
    """What the gates do on each kind of step, as ``selectivbench probe`` found; see
    ``selectivbench.mechanism.report``."""
    verified: bool = False
    from_saved: bool = False
    """The figures are those of a saved model: nothing was trained for this record."""
    custom: Mapping[str, Any] | None = None
    """Sizes of one's own (``selectivbench train``): no bar, no verdict; None for a benchmark case."""
    pieces: int = 1
    """What each training batch was split into to fit the memory; the process's own word."""
    graphs: str = ""
    """What became of CUDA graphs: ``replayed``, or why steps were eager; the process's own word. Empty
    where they were not asked for."""
    utilisation: float | None = None
    """Share of the training's time in which the GPU was busy, with whoever else used it; on a CPU, CPU
    seconds over seconds of the whole process. None where it was not seen."""
    selection: Mapping[str, Any] | None = None
    """How rate and warm-up were chosen on validation data; see ``selectivbench.sweep.choice``."""
    budget: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    created: str = ""
    schema: int = SCHEMA_VERSION

    def to_json(self) -> str:
        """The file's text: sorted, indented, finite numbers only."""
        return json.dumps(asdict(self), indent=1, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Record:
        """Read a record back; anything that is no record raises RecordError with the reason."""
        try:
            data = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
            _known(data, cls)
            schema = data.get("schema")
            if schema != SCHEMA_VERSION:
                raise RecordError(
                    explain("record schema", schema, SCHEMA_VERSION, "re-run the case")
                )
            data["identity"] = Identity(**_known(data["identity"], Identity))
            data["entry"] = Entry(**_tuples(_known(data["entry"], Entry)))
            data["evaluations"] = tuple(map(_evaluation, data["evaluations"]))
            data["curve"] = tuple(Point(**p) for p in data["curve"])
            if data.get("validation") is not None:
                data["validation"] = Evaluation(**data["validation"])
            data["isolation_notes"] = tuple(data.get("isolation_notes", ()))
            data["validity"] = tuple(Finding(**f) for f in data.get("validity", ()))
            record = cls(**data)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise RecordError(f"not a record: {type(error).__name__}: {error}") from error
        _check(record)
        return record


class Tracker(Protocol):
    """Something that follows a case while it runs; it can never make the case fail."""

    def point(self, step: int, steps: int, loss: float, accuracy: float | None) -> None:
        """Training has come to ``step`` of ``steps``."""

    def done(self, record: Record) -> None:
        """The case has its record."""


def with_variant(name: str, variant: str, mark: str = ":") -> str:
    """A name, and behind a mark its variant; ``base`` goes without saying.

    >>> with_variant("distractors-v1", "dense"), with_variant("mqar-v1", "base")
    ('distractors-v1:dense', 'mqar-v1')
    """
    return name if variant == "base" else f"{name}{mark}{variant}"


def digest(data: Mapping[str, Any]) -> str:
    """24 hex digits of a JSON-able mapping, whatever its order."""
    text = json.dumps(data, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _no_constant(name: str) -> float:
    raise RecordError(f"not a record: it holds {name}, allowed: finite numbers")


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise RecordError(f"not a record: it holds {text}, allowed: finite numbers")
    return number


def _known(data: Any, cls: type) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise RecordError(explain(cls.__name__.lower(), type(data).__name__, "a JSON object"))
    unknown = set(data) - {f.name for f in fields(cls)}
    if unknown:
        raise RecordError(f"not a record: unknown fields {sorted(unknown)} in {cls.__name__}")
    return data


def _tuples(data: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}


def _evaluation(data: Any) -> Evaluation:
    known = _known(data, Evaluation)
    if (found := known.get("anatomy")) is None:
        return Evaluation(**known)
    parts = _known(found, Anatomy)
    facets = tuple(Facet(**_tuples(_known(part, Facet))) for part in parts["facets"])
    mistakes = tuple(Mistake(**_known(part, Mistake)) for part in parts["mistakes"])
    whole = {**parts, "facets": facets, "mistakes": mistakes}
    return Evaluation(**{**known, "anatomy": Anatomy(**whole)})


def _check(part: Any) -> None:
    """Every field of a record, and of its parts, is what its annotation says."""
    for name, hint, fits in tests_of(part.__class__):
        value = getattr(part, name)
        if not fits(value):
            choices = get_origin(hint) is Literal
            allowed = ", ".join(get_args(hint)) if choices else getattr(hint, "__name__", hint)
            raise RecordError(explain(f"record {name}", value, allowed))
        for inner in value if type(value) is tuple else (value,):
            if type(inner) in _PARTS:
                _check(inner)


_PARTS = (Identity, Entry, Evaluation, Point, Finding, Anatomy, Facet, Mistake)
