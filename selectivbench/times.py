"""The result of one timing case, and its JSON file: plain numbers, without a word of how to measure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from selectivbench.annotations import tests_of
from selectivbench.errors import RecordError, explain

WHAT = ("train", "forward", "decode")
OWN = "own"
"""The submission's name among the layers of a case."""


@dataclass(frozen=True)
class Measured:
    """One layer's rounds: seconds of one repeat on the controller's clock, and busy ones.

    memory: bytes at the peak, on top of what one short sequence needs. state_bytes: what one
    sequence carries from step to step, as seen in decoding.
    """

    seconds: tuple[float, ...]
    busy: tuple[float, ...]
    repeats: int
    memory: int | None = None
    state_bytes: int | None = None


@dataclass(frozen=True)
class Timing:
    """The result of one case. ``layers``: ``own`` and the yardsticks that could be timed."""

    entry: str
    source_sha256: str
    profile: str
    device_class: str
    what: str
    length: int
    batch: int
    key: str
    layers: Mapping[str, Measured]
    declared_state: int | None
    """Floats, as the submission's ``state_size`` says."""
    isolation: str
    environment: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    created: str = ""

    @property
    def stem(self) -> str:
        """File name without its ending."""
        return stem_of(self.entry, self.what, self.length, self.profile, self.key)

    @property
    def own(self) -> Measured:
        """The submission's layer."""
        return self.layers[OWN]

    @property
    def tokens(self) -> int:
        """Of one repeat; decoding gives one token a sequence."""
        return self.batch * (1 if self.what == "decode" else self.length)

    @property
    def tokens_per_second(self) -> float:
        """Of the median round, on the clock."""
        return self.tokens / median(self.own.seconds)

    def ratio(self, yardstick: str) -> float | None:
        """The submission's busy time over the yardstick's: the median over rounds."""
        if yardstick not in self.layers:
            return None
        pairs = zip(self.own.busy, self.layers[yardstick].busy, strict=True)
        return median(own / other for own, other in pairs)

    def to_json(self) -> str:
        """As a file's text."""
        return json.dumps(asdict(self), indent=1, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Timing:
        """Read back what ``to_json`` gave; anything else raises RecordError with the reason."""
        try:
            data = json.loads(text)
            layers = {name: _measured(layer) for name, layer in data["layers"].items()}
            timing = cls(**{**data, "layers": layers})
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise RecordError(f"not a timing: {type(error).__name__}: {error}") from error
        _check(timing)
        return timing


def stem_of(entry: str, what: str, length: int, profile: str, key: str) -> str:
    """File name of a timing without the ending; readable first, unique last."""
    return f"{entry}-{what}-T{length}-{profile}-{key}"


def _measured(layer: Mapping[str, Any]) -> Measured:
    return Measured(**{**layer, "seconds": tuple(layer["seconds"]), "busy": tuple(layer["busy"])})


def _check(timing: Timing) -> None:
    """Every field is what its annotation says, and the layers took turns: as many rounds in each."""
    _check_types(timing)
    for layer in timing.layers.values():
        _check_types(layer)
    if timing.what not in WHAT or OWN not in timing.layers:
        got = f"{timing.what} of {', '.join(timing.layers) or 'nothing'}"
        raise RecordError(explain("timing", got, f"{', '.join(WHAT)} of {OWN} and yardsticks"))
    rounds = [times for m in timing.layers.values() for times in (m.seconds, m.busy)]
    if len({len(times) for times in rounds}) != 1 or min(min(t, default=0) for t in rounds) <= 0:
        lengths = [len(times) for times in rounds]
        allowed = "as many of each, longer than 0"
        raise RecordError(explain("rounds of each layer", lengths, allowed))


def _check_types(part: Any) -> None:
    for name, hint, fits in tests_of(part.__class__):
        if not fits(value := getattr(part, name)):
            allowed = getattr(hint, "__name__", hint)
            raise RecordError(explain(f"timing {name}", value, allowed))
