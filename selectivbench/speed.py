"""How fast the data engine is, on one thread: ``python -m selectivbench.speed``.

A benchmark to run, not a test: times depend on the machine. CPU seconds are shown beside the clock,
since a busy neighbour shows in one only.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from selectivbench.compiled import kernels
from selectivbench.grammar import Grammar
from selectivbench.seeds import Stream
from selectivbench.tasks import get_task
from selectivbench.walks import Walker

SEQUENCES, CHUNK = 201_000, 1_000
"""Training and test sequences of one published experiment, and how many are held at once."""


@dataclass(frozen=True)
class Row:
    """One line of the table; reference: CPU seconds of the published code, measured elsewhere."""

    what: str
    wall: float
    cpu: float
    limit: float | None = None
    reference: str = "-"


def timed(what: str, do: Callable[[], object], repeat: int = 1, **notes: object) -> Row:
    """The best of some runs."""
    best = (np.inf, np.inf)
    for _ in range(repeat):
        wall, cpu = time.perf_counter(), time.process_time()
        do()
        best = min(best, (time.perf_counter() - wall, time.process_time() - cpu))
    return Row(what, *best, **notes)  # type: ignore[arg-type]


def rows(share: float = 1.0) -> Iterator[Row]:
    """The measurements; ``share`` of all sequences is walked and the time scaled to all."""
    yield timed("first call: load the kernels, compile them if not cached", _first_call)
    yield timed(
        "grammar, ambiguity 40",
        lambda: Grammar.random(1, ambiguities=40),
        5,
        limit=0.25,
        reference="7.2 s",
    )
    yield timed("its tables for walks", lambda: Walker(Grammar.random(1, ambiguities=40)).survive)
    walker = Walker(Grammar.random(1, ambiguities=40))
    stream = Stream.named("speed")
    count = int(SEQUENCES * share)
    for name, walk, limit in (
        ("reference-exact", lambda where: walker.reference(1, where), 30.0),
        ("native", lambda where: walker.native(stream, where, 200), 15.0),
    ):
        row = timed(name, lambda walk=walk: _in_chunks(walk, count))  # type: ignore[misc]
        scale = SEQUENCES / count
        what = f"{SEQUENCES:,} sequences, ambiguity 40, {name}"
        yield Row(what, row.wall * scale, row.cpu * scale, limit, "190 core-hours")
    yield from _batches()


def _first_call() -> None:
    kernels()
    walker = Walker(Grammar.random(1, ambiguities=2))
    walker.native(Stream.named("speed"), np.arange(1), 4)
    walker.reference(1, np.arange(1))
    get_task("memorization").dataset("smoke", "amb8", seed=1).levels()


def _in_chunks(walk: Callable[[np.ndarray], object], count: int) -> None:
    for begin in range(0, count, CHUNK):
        walk(np.arange(begin, min(begin + CHUNK, count)))


def _batches() -> Iterator[Row]:
    """A batch of 64 drawn and encoded, at paper and lite size."""
    for profile, limit, reference in (("paper", 0.012, "630 ms"), ("lite", None, "-")):
        data = get_task("noisy_gaps").dataset(profile, "base", seed=1)

        def both(data=data) -> None:  # type: ignore[no-untyped-def]
            batch = data.batch("train", np.arange(64))
            data.encoding.encode(batch.tokens, batch.noise_seeds)

        what = f"batch of 64, noisy_gaps {profile}, drawn and encoded"
        yield timed(what, both, 20, limit=limit, reference=reference)
        tracemalloc.start()
        both()
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        yield Row(f"  its peak memory: {peak:.1f} MiB", 0.0, 0.0)


def table(share: float = 1.0) -> str:
    """The measurements as Markdown."""
    lines = ["| what | wall | CPU | limit | reference |", "|---|---|---|---|---|"]
    for row in rows(share):
        times = [_seconds(row.wall), _seconds(row.cpu), _seconds(row.limit)]
        lines.append(f"| {' | '.join([row.what, *times, row.reference])} |")
    return "\n".join(lines)


def _seconds(value: float | None) -> str:
    if not value:
        return "-"
    return f"{value * 1000:.1f} ms" if value < 1 else f"{value:.1f} s"


if __name__ == "__main__":
    print(table(share=float(sys.argv[1]) if len(sys.argv) > 1 else 1.0))
