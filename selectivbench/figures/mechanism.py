"""What a trained layer's gates do, drawn from the plain arrays of a probe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selectivbench.batch import BLANK, PAD
from selectivbench.errors import UsageError, explain
from selectivbench.figures.page import (
    COLOURS,
    SOFT,
    Drawn,
    Look,
    blank,
    finish,
    handles_of,
    mark,
    panels,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PROBE = ("gates", "distributions", "channels", "distances")
"""The figures of a probe."""
LETTERED = 90
"""Steps whose symbols are still written under the axis."""
SMALLEST = 5.0
"""Points; where symbols would be smaller, the most common one (the filler) is not written."""


@dataclass(frozen=True, eq=False)
class Gate:
    """One signal of one layer, as a probe found it.

    trace (N, T): its mean over channels on N sequences. means (K, C): on each kind of step, NaN where
    there is none. counts (K, bins), edges (bins + 1,): its values on each kind.
    """

    name: str
    trace: NDArray[np.floating]
    means: NDArray[np.floating]
    counts: NDArray[np.integer]
    edges: NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Shown:
    """The steps that gates are drawn under.

    kinds (N, T): what each step is, an index into ``names``, -1 for padding. symbols: of the first
    sequence, a short text a step.
    """

    names: tuple[str, ...]
    kinds: NDArray[np.integer]
    symbols: tuple[str, ...]


def draw_probe(
    title: str,
    arrays: Mapping[str, NDArray[Any]],
    kinds: Sequence[str],
    symbols: Sequence[str],
    look: Look,
    only: Sequence[str] = PROBE,
) -> dict[str, Drawn]:
    """The figures of a probe by name: those of ``only`` that there are (distances: of attention).

    arrays: ``tokens`` and ``kinds`` (N, T), and for each signal ``LAYER/NAME/trace``, ``/means``,
    ``/counts``, ``/edges``; of attention ``/distances`` (H, T) too. kinds: their names; symbols: what
    to call each token, its number where there is no name. UsageError where there is no signal.
    """
    names = [key.removesuffix("/trace") for key in arrays if key.endswith("/trace")]
    if not names or "tokens" not in arrays:
        got = f"arrays {', '.join(sorted(arrays)) or 'none'}"
        raise UsageError(explain("probe", got, "tokens, kinds and signals", "probe with --out"))
    parts = ("trace", "means", "counts", "edges")
    gates = [Gate(f"layer {name}", *(arrays[f"{name}/{part}"] for part in parts)) for name in names]
    shown = Shown(tuple(kinds), arrays["kinds"], _called(arrays["tokens"][0], symbols))
    draw: dict[str, Callable[[], Drawn]] = {
        "gates": lambda: draw_gates(title, gates, shown, look),
        "distributions": lambda: draw_distributions(title, gates, kinds, look),
        "channels": lambda: draw_heat(title, gates, kinds, look),
    }
    shares = {f"layer {n}": a for n in names if (a := arrays.get(f"{n}/distances")) is not None}
    if shares:
        draw["distances"] = lambda: draw_distances(title, shares, look)
    return {name: draw[name]() for name in only if name in draw}


def _called(tokens: NDArray[np.integer], symbols: Sequence[str]) -> tuple[str, ...]:
    """What each step shows; a blank is ``.``, padding nothing."""
    names = {BLANK: ".", PAD: "", **dict(enumerate(symbols))}
    return tuple(names.get(token, str(token)) for token in tokens.tolist())


def draw_gates(title: str, gates: Sequence[Gate], shown: Shown, look: Look) -> Drawn:
    """Each gate over time, on the first sequence, which is written under the axis."""
    kinds = shown.kinds[0]
    steps = int((kinds >= 0).sum())
    with styled(look):
        figure, grid = panels(look, len(gates), look.width, 1.15)
        axes = [ax for row in grid for ax in row]
        for ax, gate in zip(axes, gates, strict=True):
            _over_time(ax, gate, kinds[:steps], shown.names)
        _written(axes[-1], shown.symbols[:steps], look)
        finish(figure, title, handles_of(axes), look)
    rows = tuple(
        (gate.name, t, shown.symbols[t], shown.names[kinds[t]], float(gate.trace[0, t]))
        for gate in gates
        for t in range(steps)
    )
    return Drawn(figure, ("gate", "step", "shows", "kind", "mean over channels"), rows)


def _over_time(ax: Axes, gate: Gate, kinds: NDArray[np.integer], names: Sequence[str]) -> None:
    values = gate.trace[0, : len(kinds)]
    steps = np.arange(len(kinds))
    ax.plot(steps, values, color=SOFT, linewidth=0.8, zorder=1)
    for kind in np.unique(kinds):
        where = kinds == kind
        style = {**mark(int(kind)), "linestyle": "none"}
        ax.plot(steps[where], values[where], label=names[kind], **style)
    ax.set_title(gate.name, parse_math=False)
    ax.set_xlim(-1, len(kinds))
    ax.tick_params(axis="x", labelbottom=False, length=0)


def _written(ax: Axes, symbols: Sequence[str], look: Look) -> None:
    """The sequence itself under the last axis, or numbers of steps where it is too long."""
    ax.tick_params(axis="x", labelbottom=True, length=0)
    if len(symbols) > LETTERED:
        ax.set_xlabel("step")
        return
    fits = 1.25 * look.width * 72 * 0.88 / len(symbols)
    common = max(set(symbols), key=symbols.count)
    texts = [s if s != common or fits >= SMALLEST else "" for s in symbols]
    size = min(look.size, max(fits, SMALLEST))
    ax.set_xticks(range(len(symbols)), texts, fontsize=size, family="DejaVu Sans Mono")


def draw_distributions(
    title: str, gates: Sequence[Gate], names: Sequence[str], look: Look
) -> Drawn:
    """How often each gate has each value, on each kind of step."""
    with styled(look):
        figure, grid = panels(look, len(gates), 2.1, 1.4)
        axes = [ax for row in grid for ax in row]
        for ax, gate in zip(axes, gates, strict=True):
            for kind, density in _densities(gate):
                style = mark(kind)
                dash, colour = style["linestyle"], style["color"]
                ax.stairs(density, gate.edges, label=names[kind], linestyle=dash, color=colour)
            ax.set_title(gate.name, parse_math=False)
            ax.set_ylim(bottom=0)
            ax.set_yticks([])
            ax.grid(visible=False)
        for row in grid:
            row[0].set_ylabel("how often")
        finish(figure, title, handles_of(axes), look)
    rows = tuple(
        (gate.name, names[kind], float(low), float(high), int(count))
        for gate in gates
        for kind, counts in enumerate(gate.counts)
        if counts.any()
        for low, high, count in zip(gate.edges[:-1], gate.edges[1:], counts, strict=True)
    )
    return Drawn(figure, ("gate", "kind", "from", "to", "values"), rows)


def _densities(gate: Gate) -> list[tuple[int, NDArray[np.floating]]]:
    """Of the kinds that there are, each with its greatest value at 1: some kinds are rare."""
    return [(k, counts / counts.max()) for k, counts in enumerate(gate.counts) if counts.any()]


def draw_heat(title: str, gates: Sequence[Gate], names: Sequence[str], look: Look) -> Drawn:
    """Each gate's mean on each kind of step, channel by channel, sorted by the first kind's."""
    with styled(look):
        figure, grid = panels(look, len(gates), 3.2, 1.25)
        axes = [ax for row in grid for ax in row]
        for ax, gate in zip(axes, gates, strict=True):
            there = np.flatnonzero(np.isfinite(gate.means).any(axis=1)).tolist()
            ordered = gate.means[there][:, np.argsort(gate.means[there[0]])]
            image = ax.imshow(ordered, aspect="auto", cmap="cividis", interpolation="nearest")
            ax.set_yticks(range(len(there)), [names[k] for k in there])
            ax.set_title(gate.name, parse_math=False)
            ax.grid(visible=False)
            figure.colorbar(image, ax=ax, pad=0.02)
        axes[-1].set_xlabel("channel (sorted)")
        finish(figure, title, {}, look)
    rows = tuple(
        (gate.name, names[kind], channel, float(value))
        for gate in gates
        for kind, means in enumerate(gate.means)
        for channel, value in enumerate(means)
        if np.isfinite(value)
    )
    return Drawn(figure, ("gate", "kind", "channel", "mean"), rows)


def draw_distances(title: str, shares: Mapping[str, NDArray[np.floating]], look: Look) -> Drawn:
    """Of each attention (H, T), the share of weight given to steps at most so far back, a line a
    head."""
    with styled(look):
        figure = blank(look.width, 2.4)
        ax = figure.subplots()
        lines = [
            (f"{name} head {h}", row) for name, rows in shares.items() for h, row in enumerate(rows)
        ]
        for place, (name, row) in enumerate(lines):
            every = max(1, len(row) // 8)
            ax.plot(np.cumsum(row), label=name, markevery=every, **mark(place))
        ax.set_xlabel("steps back")
        ax.set_ylabel("share of weight so far")
        ax.set_ylim(0, 1.02)
        ax.set_xscale("symlog", linthresh=1)
        ax.set_xlim(left=0)
        farthest = max(len(row) for _, row in lines)
        ticks = [0, *(n * 10**power for power in range(6) for n in (1, 2, 5))]
        ax.set_xticks([t for t in ticks if t < farthest], [f"{t}" for t in ticks if t < farthest])
        ax.minorticks_off()
        finish(figure, title, handles_of([ax]), look)
    rows = tuple(
        (name, back, float(value))
        for name, row in lines
        for back, value in enumerate(np.cumsum(row))
    )
    return Drawn(figure, ("head", "steps back", "share of weight so far"), rows)


def draw_ranges(title: str, signals: Sequence[Mapping[str, Any]], look: Look) -> Drawn:
    """What each gate does on each kind of step, of a probe in a record: median, the middle half and
    the middle nine tenths over all steps and channels."""
    with styled(look):
        figure, grid = panels(look, len(signals), 2.1, 1.25)
        axes = [ax for row in grid for ax in row]
        for ax, signal in zip(axes, signals, strict=True):
            kinds: Mapping[str, Any] = signal["kinds"]
            for place, summary in enumerate(kinds.values()):
                low, first, median, third, high = summary["quantiles"]
                ax.hlines(place, low, high, color=SOFT, linewidth=0.8)
                ax.hlines(place, first, third, color=COLOURS[0], linewidth=2.5)
                ax.plot(median, place, "o", color=COLOURS[0], markerfacecolor="white")
            ax.set_yticks(range(len(kinds)), list(kinds))
            ax.set_ylim(len(kinds) - 0.5, -0.5)
            ax.set_title(_layer(signal), parse_math=False)
        finish(figure, title, {}, look)
    rows = tuple(
        (_layer(signal), kind, summary["steps"], *summary["quantiles"])
        for signal in signals
        for kind, summary in signal["kinds"].items()
    )
    return Drawn(figure, ("gate", "kind", "steps", "5 %", "25 %", "median", "75 %", "95 %"), rows)


def _layer(signal: Mapping[str, Any]) -> str:
    return f"layer {signal['layer']}/{signal['name']}"
