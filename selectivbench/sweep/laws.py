"""What measured training steps say of sizes that were not measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from selectivbench.sweep.timing import Step


@dataclass(frozen=True)
class Law:
    """A quantity of one block: ``linear * width + square * width**2 + pairs * width * length``.

    The last part is of a token that is compared with each of its sequence (attention).
    """

    linear: float
    square: float
    pairs: float = 0.0

    @classmethod
    def through(
        cls, widths: Sequence[int], values: Sequence[float], lengths: Sequence[int] = ()
    ) -> Law:
        """The law without a negative part that comes nearest, by the squares of relative errors.

        A part needs two widths, or two lengths, to be seen: through one width, the square alone.

        >>> Law.through([2, 4], [8, 24])
        Law(linear=2.0, square=1.0, pairs=0.0)
        """
        width, length = np.asarray(widths, dtype=float), np.asarray(lengths, dtype=float)
        parts = {"square": width**2}
        if len(set(widths)) > 1:
            parts["linear"] = width
        if len(set(lengths)) > 1:
            parts["pairs"] = width * length
        groups = (names for n in range(len(parts)) for names in combinations(parts, n + 1))
        fits = [_fit({n: parts[n] for n in names}, np.asarray(values)) for names in groups]
        _, best = min((fit for fit in fits if min(fit[1].values()) >= 0), key=lambda fit: fit[0])
        return cls(best.get("linear", 0.0), best.get("square", 0.0), best.get("pairs", 0.0))

    def at(self, width: int, length: float = 0.0) -> float:
        """Its value at a width and a length."""
        return self.linear * width + self.square * width**2 + self.pairs * width * length


def _fit(
    parts: Mapping[str, NDArray[np.float64]], values: NDArray[np.float64]
) -> tuple[float, dict[str, float]]:
    """Sum of squared relative errors, and each part's factor, of the nearest law with such parts."""
    relative = np.stack(list(parts.values()), axis=1) / values[:, None]
    factors = np.linalg.lstsq(relative, np.ones(len(values)))[0]
    off = float(((relative @ factors - 1) ** 2).sum())
    return off, {name: float(f"{f:.12g}") for name, f in zip(parts, factors, strict=True)}


@dataclass(frozen=True)
class Laws:
    """Of one submission, a block: seconds of a token on the measured device, parameters, and the
    floats that it carries from step to step."""

    seconds: Law
    parameters: Law
    state: Law = Law(0.0, 0.0)

    def factors(self, width: int, length: float) -> float:
        """Numbers that a token is multiplied with: parameters, and the state's part that grows with
        the length (keys and values, of attention)."""
        return self.parameters.at(width) + self.state.pairs * width * length


def laws(steps: Iterable[Step]) -> dict[tuple[str, str], Laws]:
    """One for each submission and training task that was measured."""
    found: dict[tuple[str, str], list[Step]] = defaultdict(list)
    for step in steps:
        found[step.submission, step.task].append(step)
    return {at: _laws(measured) for at, measured in found.items()}


def _laws(steps: Sequence[Step]) -> Laws:
    widths, lengths = [step.width for step in steps], [step.length for step in steps]
    stateful = all(step.state for step in steps)
    return Laws(
        seconds=Law.through(widths, [s.seconds / s.tokens / s.layers for s in steps], lengths),
        parameters=Law.through(widths, [s.parameters / s.layers for s in steps]),
        state=Law.through(widths, [s.state for s in steps], lengths) if stateful else Law(0, 0),
    )
