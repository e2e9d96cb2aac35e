"""The timings of a run as text: each length, then how cost grows with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import median

from selectivbench.growth import growths
from selectivbench.times import WHAT, Timing
from selectivbench.yardsticks import NAMES

HEAD = ("entry", "timed", "T", "batch", "ms", "tokens/s", *(f"/ {name}" for name in NAMES),
        "peak MiB", "state B/token")  # fmt: skip
MIB = 1 << 20


def table(timings: Iterable[Timing]) -> list[str]:
    """Lines of text; nothing where nothing was timed.

    ms and tokens/s are on the clock; ``/ lstm`` is the layer's busy time over the yardstick's.
    """
    ordered = sorted(timings, key=lambda t: (t.entry, WHAT.index(t.what), t.length))
    if not ordered:
        return []
    body = [_cells(timing) for timing in ordered]
    widths = [max(len(cells[i]) for cells in (HEAD, *body)) for i in range(len(HEAD))]
    joined = [
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in (HEAD, *body)
    ]
    return [*joined, *growth(ordered)]


def growth(ordered: Iterable[Timing]) -> Iterator[str]:
    """One line for each workload of an entry: the exponents of time and memory in T."""
    for found in growths(ordered):
        memory = "" if found.memory is None else f", peak memory as T^{found.memory.value:.2f}"
        lengths = ", ".join(map(str, found.lengths))
        one = "one step" if found.what == "decode" else "one sequence"
        grows = f"time of {one} grows as T^{found.time}{memory}"
        yield f"{found.entry} {found.what}: {grows} (T = {lengths})"


def _cells(timing: Timing) -> tuple[str, ...]:
    own = timing.own
    return (
        timing.entry,
        timing.what,
        str(timing.length),
        str(timing.batch),
        f"{median(own.seconds) * 1000:.3g}",
        f"{timing.tokens_per_second:.3g}",
        *(_ratio(timing.ratio(name)) for name in NAMES),
        "-" if own.memory is None else f"{own.memory / MIB:.1f}",
        _state(timing),
    )


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _state(timing: Timing) -> str:
    """Bytes carried for each token of a sequence: as seen in decoding."""
    held = timing.own.state_bytes
    return "-" if held is None else f"{held / timing.length:.1f}"
