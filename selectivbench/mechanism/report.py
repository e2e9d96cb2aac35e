"""The result of a probe: JSON for a record, arrays for figures, a table for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from selectivbench.errors import UsageError, explain
from selectivbench.mechanism.effects import Effect, Summary
from selectivbench.record import Record


@dataclass(frozen=True)
class Measured:
    """One signal of one layer.

    role, gate, fixed: see ``signals.Signal``. kinds: its summary on each kind of step that occurs.
    effect: symbols against steps to be ignored; None where the task has no such two kinds.
    looks: of attention, the share of weight that asked steps give to each kind of step, and
    ``evenly``, the share that even weights would give.
    """

    layer: str
    name: str
    role: str
    channels: int
    gate: bool
    fixed: str
    kinds: Mapping[str, Summary]
    effect: Effect | None
    looks: Mapping[str, float] = field(default_factory=dict)
    evenly: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Intervention:
    """What became of the answers when gates were replaced.

    kind: ``clamp``, ``swap`` or ``swap control``. gates: their name, or ``all``.
    figure: in the unit of the task's metric. change: figure less the untouched one, with its 95 %
    interval from a bootstrap over sequences.
    """

    kind: str
    gates: str
    figure: float
    change: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Probe:
    """A probed model on one held-out split.

    figure: the untouched model's, on the ``sequences`` that were used; floor, ceiling: the split's.
    nothing_to_steer: why there are no interventions, or "".
    arrays: for figures, by name; see ``examine``. They go into a file of their own.
    """

    entry: str
    source_sha256: str
    task: str
    variant: str
    profile: str
    seed: int
    steps: int
    split: str
    sequences: int
    metric: str
    figure: float
    floor: float
    ceiling: float
    signals: tuple[Measured, ...]
    interventions: tuple[Intervention, ...] = ()
    nothing_to_steer: str = ""
    symbol_names: tuple[str, ...] = ()
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def stem(self) -> str:
        """File name without its ending."""
        parts = (self.entry, self.task, self.variant, self.profile, f"seed{self.seed}")
        return f"probe-{'-'.join(parts)}"

    def to_data(self) -> dict[str, Any]:
        """As JSON-able data, without the arrays."""
        data = asdict(self)
        del data["arrays"]
        return rounded(data)  # type: ignore[no-any-return]

    def for_record(self) -> dict[str, Any]:
        """What a record does not say already."""
        known = ("entry", "source_sha256", "task", "variant", "profile", "seed", "symbol_names")
        return {key: value for key, value in self.to_data().items() if key not in known}

    @classmethod
    def from_record(cls, record: Record) -> Probe | None:
        """The probe in a record, without its arrays; None where there is none."""
        if record.probe is None:
            return None
        named = ("entry", "source_sha256", "task", "variant", "profile", "seed")
        return cls.from_data({k: getattr(record.identity, k) for k in named} | dict(record.probe))

    @classmethod
    def from_data(
        cls, data: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None
    ) -> Probe:
        """Read back what ``to_data`` gave; UsageError where it is no probe."""
        try:
            parts = dict(data)
            parts["signals"] = tuple(map(_measured, parts["signals"]))
            parts["interventions"] = tuple(Intervention(**x) for x in parts["interventions"])
            parts["symbol_names"] = tuple(parts.get("symbol_names", ()))
            return cls(**parts, arrays=arrays or {})
        except (KeyError, TypeError) as error:
            raise UsageError(
                explain("probe", str(error), "what `selectivbench probe` wrote")
            ) from error

    def write(self, folder: Path) -> Path:
        """``STEM.json`` and, beside it, ``STEM.npz``; the path of the first."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.stem}.json"
        path.write_text(json.dumps(self.to_data(), indent=1, ensure_ascii=False) + "\n", "utf-8")
        np.savez_compressed(path.with_suffix(".npz"), **cast(Any, self.arrays))
        return path

    @classmethod
    def read(cls, path: Path) -> Probe:
        """From the files that ``write`` made; the arrays may be missing."""
        try:
            data = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(explain("probe", str(path), "a readable probe file")) from error
        beside = path.with_suffix(".npz")
        arrays = dict(np.load(beside, allow_pickle=False)) if beside.is_file() else {}
        return cls.from_data(data, arrays)


def _measured(data: Mapping[str, Any]) -> Measured:
    parts = dict(data)
    parts["kinds"] = {
        kind: Summary(**(x | {"quantiles": tuple(x["quantiles"])}))
        for kind, x in parts["kinds"].items()
    }
    parts["effect"] = None if parts["effect"] is None else Effect(**parts["effect"])
    return Measured(**parts)


def rounded(data: Any) -> Any:
    """Every float with six significant digits, so that a record stays small."""
    if isinstance(data, float):
        return float(f"{data:.6g}")
    if isinstance(data, dict):
        return {key: rounded(value) for key, value in data.items()}
    return [rounded(value) for value in data] if isinstance(data, list | tuple) else data


def table(probe: Probe) -> str:
    """What a person reads in a terminal."""
    head = f"{probe.entry} on {probe.task}, seed {probe.seed}: {probe.metric} {probe.figure:.4f}"
    levels = f"floor {probe.floor:.3f}, ceiling {probe.ceiling:.3f}"
    lines = [f"{head} ({levels}; {probe.sequences} sequences of {probe.split})", ""]
    lines += _aligned([_HEAD, *(row for signal in probe.signals for row in _rows(signal))])
    lines += ["", *_notes(probe)]
    if probe.interventions:
        rows: list[tuple[str, ...]] = [("put in place", "gates", probe.metric, "change", "95 %")]
        rows += [_outcome(x) for x in probe.interventions]
        lines += ["", *_aligned(rows)]
    return "\n".join(lines)


_HEAD: tuple[str, ...] = (
    *("layer", "signal", "step", "steps", "mean", "5 %", "median", "95 %"),
    *("effect", "95 %", "typical", "higher"),
)


def _rows(signal: Measured) -> list[tuple[str, ...]]:
    """One line for each kind of step; the effect stands on the first."""
    lines = []
    for number, (kind, x) in enumerate(signal.kinds.items()):
        name = (signal.layer, signal.name) if not number else ("", "")
        shown = (x.mean, x.quantiles[0], x.quantiles[2], x.quantiles[4])
        tail = ("",) * 4 if number else _effect(signal.effect)
        lines.append((*name, kind, f"{x.steps}", *(f"{v:.3g}" for v in shown), *tail))
    return lines


def _effect(x: Effect | None) -> tuple[str, ...]:
    if x is None:
        return ("",) * 4
    typical = "" if x.typical is None else f"{x.typical:.2f}"
    middle = ("apart", "no spread")
    if x.value is not None:
        middle = (f"{x.value:+.2f}", f"{x.low:+.2f} to {x.high:+.2f}")
    return (*middle, typical, f"{x.higher:.0%}")


def _notes(probe: Probe) -> list[str]:
    lines = [
        "effect: (mean on symbols - mean on steps to be ignored) / standard deviation, of the mean "
        "over channels",
        "typical: median over channels of each one's own effect, without its sign; higher: channels "
        "that are higher on symbols",
    ]
    for signal in probe.signals:
        if signal.fixed:
            lines.append(
                f"{signal.layer} {signal.name}: {signal.fixed}; its effect is 0 by construction"
            )
        if signal.looks:
            shares = ", ".join(
                f"{kind} {share:.2f} (even: {signal.evenly[kind]:.2f})"
                for kind, share in signal.looks.items()
            )
            lines.append(f"{signal.layer} {signal.name}: weight of the asked steps on {shares}")
    return [*lines, *([probe.nothing_to_steer] if probe.nothing_to_steer else [])]


def _outcome(x: Intervention) -> tuple[str, ...]:
    return x.kind, x.gates, f"{x.figure:.4f}", f"{x.change:+.4f}", f"{x.low:+.4f} to {x.high:+.4f}"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
