"""What was heard, measured; and the answers when gates are replaced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selectivbench.mechanism.attention import Looks
from selectivbench.mechanism.effects import channel_effects, effect, resampled, summary
from selectivbench.mechanism.hearing import Heard, Marks, figure
from selectivbench.mechanism.report import Intervention, Measured
from selectivbench.mechanism.steering import Steering, clamp, partners, steerable, swap
from selectivbench.sandbox.controller import PREDICT_DEADLINE, Child
from selectivbench.signals import Signal
from selectivbench.tasks.base import KINDS, SYMBOL, TO_IGNORE

DRAWN = 4
"""Sequences whose signals are kept step by step, for figures."""
BINS = 40


def measured(heard: Heard) -> tuple[Measured, ...]:
    """Every signal, in numbers."""
    return tuple(_measured(signal, heard) for signal in heard.signals)


def _measured(signal: Signal, heard: Heard) -> Measured:
    kinds = heard.kinds_of(signal)
    looked = heard.looks.get(signal.key)
    return Measured(
        layer=signal.layer,
        name=signal.name,
        role=signal.role,
        channels=signal.values.shape[2],
        gate=signal.gate,
        fixed=signal.fixed,
        kinds={KINDS[k]: summary(signal.values, kinds == k) for k in _present(kinds)},
        effect=effect(signal.values, kinds),
        looks=_shares(looked, looked.kinds.mean(axis=0)) if looked else {},
        evenly=_shares(looked, looked.evenly) if looked else {},
    )


def _shares(looked: Looks, weight: NDArray[np.float64]) -> dict[str, float]:
    """Of the kinds that there are."""
    there = zip(KINDS, weight / looked.steps, looked.evenly, strict=True)
    return {kind: float(share) for kind, share, even in there if even}


def _present(kinds: NDArray[np.int8]) -> list[int]:
    return [kind for kind in range(len(KINDS)) if (kinds == kind).any()]


def interventions(
    child: Child, heard: Heard, seed: int, *, clamped: bool, swapped: bool
) -> tuple[Intervention, ...]:
    """Run again with gates held at their mean, and with gates swapped between steps.

    Once with all gates that write or forget, and once with those of each name.
    """
    child.enter("steer", PREDICT_DEADLINE)
    return tuple(
        _outcome(kind, name, heard.marks, _steered(child, heard, steering))
        for kind, name, steering in _steerings(heard, seed, clamped=clamped, swapped=swapped)
    )


def _steerings(
    heard: Heard, seed: int, *, clamped: bool, swapped: bool
) -> Iterator[tuple[str, str, Steering]]:
    gates = steerable(heard.signals)
    names = list(dict.fromkeys(gate.name for gate in gates))
    groups = {"all": gates} if names else {}
    if len(names) > 1:
        groups |= {name: tuple(g for g in gates if g.name == name) for name in names}
    pairs = partners(heard.kinds, seed), partners(heard.kinds, seed, control=True)
    for name, group in groups.items():
        if clamped:
            yield "clamp", name, clamp(group, heard.kinds)
        if swapped:
            yield "swap", name, swap(group, pairs[0])
            yield "swap control", name, swap(group, pairs[1])


def _steered(child: Child, heard: Heard, steering: Steering) -> Marks:
    marks = []
    for part in heard.parts:
        steps = part.batch.tokens.shape[1]
        values = steering(part.rows)
        cut = {key: v if v.ndim == 1 else v[:, :steps] for key, v in values.items()}
        marks.append(part.marks(child.steer(part.batch, cut)))
    return np.concatenate(marks)


def _outcome(kind: str, gates: str, before: Marks, after: Marks) -> Intervention:
    """The change, whose interval comes from drawing whole sequences again."""
    weights = resampled(len(before))
    (was, of), (now, _) = (weights @ before).T, (weights @ after).T
    low, high = np.quantile((now - was) / of, (0.025, 0.975))
    value = figure(after)
    return Intervention(kind, gates, value, value - figure(before), float(low), float(high))


def arrays(heard: Heard) -> Mapping[str, NDArray[Any]]:
    """For figures. ``tokens``, ``kinds`` (N, T) of the first sequences; of each signal, by
    ``layer/name/``: ``trace`` (N, T), its mean over channels there; ``means`` (K, C) on each kind of
    step (NaN where there is none); ``effects`` (C,); ``counts`` (K, bins) and ``edges``; of
    attention, ``distances`` (H, T): the share of weight that asked steps give to steps so far back.
    """
    first = heard.parts[0].batch.tokens[:DRAWN]
    found: dict[str, NDArray[Any]] = {"tokens": first, "kinds": heard.kinds[:DRAWN]}
    for signal in heard.signals:
        kinds = heard.kinds_of(signal)
        found |= {f"{signal.key}/{name}": a for name, a in _drawn(signal, kinds).items()}
    for key, looked in heard.looks.items():
        found[f"{key}/distances"] = (looked.distances / looked.steps).astype(np.float32)
    return found


def _drawn(signal: Signal, kinds: NDArray[np.int8]) -> dict[str, NDArray[Any]]:
    values, of = signal.values, [kinds == kind for kind in range(len(KINDS))]
    edges = np.histogram_bin_edges(values[kinds >= 0], BINS)
    nothing = np.full(values.shape[2], np.nan)
    means = [values[w].mean(axis=0, dtype=np.float64) if w.any() else nothing for w in of]
    symbol, other = of[SYMBOL], np.isin(kinds, TO_IGNORE)
    both = symbol.any() and other.any()
    found: dict[str, NDArray[Any]] = {
        "trace": values[:DRAWN].mean(axis=2),
        "means": np.stack(means).astype(np.float32),
        "effects": channel_effects(values, symbol, other) if both else nothing,
        "counts": np.stack([np.histogram(values[where], edges)[0] for where in of]),
        "edges": edges,
    }
    return found


def nothing_to_steer(signals: Sequence[Signal]) -> str:
    """Why no gate can be replaced, or ""."""
    if steerable(signals):
        return ""
    if any(signal.fixed for signal in signals):
        return "nothing to clamp or swap: what this layer keeps is set by parameters alone"
    return "nothing to clamp or swap: no gate here writes or forgets"
