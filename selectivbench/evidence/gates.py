"""Claims about trained gates, from probes that ``selectivbench probe`` wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from selectivbench.evidence.claim import OURS, TEXTBOOK, Claim, verdict_of
from selectivbench.evidence.contrasts import Figure, figure
from selectivbench.evidence.runs import references
from selectivbench.mechanism.report import Probe

FOLDER = Path("docs/probes")


def read(root: Path | None) -> tuple[Probe, ...]:
    """Every committed probe of a checkout, without its arrays."""
    if root is None:
        return ()
    return tuple(Probe.read(path) for path in sorted((root / FOLDER).glob("probe-*.json")))


def claims(probes: Sequence[Probe]) -> tuple[Claim, ...]:
    """What the gates of trained models show, and what follows from them."""
    return (_opens(probes), _carries(probes))


def _opens(probes: Sequence[Probe]) -> Claim:
    role = references()["gate"]
    text = f"In the trained Mamba, filler collapses {role['signal']} and symbols open it."
    mine = [probe for probe in probes if probe.entry == role["entry"]]
    layers: dict[str, dict[int, float]] = {}
    clear = []
    for probe in mine:
        for signal in probe.signals:
            if signal.name == role["signal"] and signal.effect and signal.effect.value is not None:
                layers.setdefault(signal.layer, {})[probe.seed] = signal.effect.value
                clear.append((signal.effect.low or 0.0) > 0)
    if not clear:
        return Claim(text, TEXTBOOK, "not run")
    figures = tuple(figure(f"effect in layer {name}", found) for name, found in layers.items())
    note = (
        "Effect: symbols against filler, in standard deviations over steps of the mean over channels. "
        f"It is above 0, interval and all, in {sum(clear)} of {len(clear)} layers of trained models: "
        "channels split the work, some open on symbols and some on filler. See docs/probe.md."
    )
    return Claim(text, TEXTBOOK, verdict_of(*clear), figures, note)


def _carries(probes: Sequence[Probe]) -> Claim:
    text = "The gate carries the solution: held at its mean over steps, accuracy falls."
    entries = sorted({probe.entry for probe in probes if probe.interventions})
    figures = tuple(f for entry in entries for f in _clamped(probes, entry))
    if not figures:
        return Claim(text, TEXTBOOK, "not run")
    fell = [f.value.value < -0.1 for f in figures]
    note = "Change in accuracy with every gate held, on selective copy; a tenth or more counts."
    return Claim(text, OURS, verdict_of(*fell), figures, note)


def _clamped(probes: Sequence[Probe], entry: str) -> Iterator[Figure]:
    changes = {
        probe.seed: change.change
        for probe in probes
        if probe.entry == entry
        for change in probe.interventions
        if (change.kind, change.gates) == ("clamp", "all")
    }
    if changes:
        yield figure(f"{entry}, gates held", changes)
