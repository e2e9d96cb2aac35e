"""Entries whose sources are much the same in structure: shown, and no mark by itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import combinations

from selectivbench.similarity import SIMILAR, Structure, overlap, structure

MOST = 5
"""Names that an entry's page shows."""

Near = tuple[tuple[str, float], ...]
"""Entry and overlap, nearest first."""


def likenesses(sources: Mapping[str, str]) -> Mapping[str, Near]:
    """The entries nearest to each entry, of their newest sources; only those with any."""
    alike: dict[Structure, list[str]] = defaultdict(list)
    for entry, source in sorted(sources.items()):
        if found := structure(source):
            alike[found].append(entry)
    ratios: dict[Structure, dict[Structure, float]] = {one: {one: 1.0} for one in alike}
    for one, other in combinations(alike, 2):
        small, large = sorted((len(one), len(other)))
        if small >= SIMILAR * large and (ratio := overlap(one, other)) >= SIMILAR:
            ratios[one][other] = ratios[other][one] = ratio
    near = {
        entry: _nearest(entry, {other: alike[other] for other in ratios[one]}, ratios[one])
        for one, entries in alike.items()
        for entry in entries
    }
    return {entry: found for entry, found in near.items() if found}


def _nearest(
    entry: str, groups: Mapping[Structure, list[str]], ratios: Mapping[Structure, float]
) -> Near:
    """At most MOST of each group are looked at, so that a thousand copies cost no million names."""
    found = [
        (name, ratios[one])
        for one, entries in groups.items()
        for name in entries[: MOST + 1]
        if name != entry
    ]
    return tuple(sorted(found, key=lambda pair: (-pair[1], pair[0]))[:MOST])
