"""How much alike two source files are in structure: names, text and numbers aside."""

from __future__ import annotations

import ast
from collections.abc import Mapping

SIMILAR = 0.8
"""From here on two sources are much the same."""
RUN = 7

Structure = frozenset[tuple[str, ...]]


def structure(source: str) -> Structure:
    """Runs of seven node kinds of the syntax tree; empty where it is none."""
    try:
        kinds = _kinds(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(tuple(kinds[i : i + RUN]) for i in range(len(kinds) - RUN + 1))


def _kinds(tree: ast.AST) -> list[str]:
    """Node kinds as they stand in the text, so that a line that is added changes few runs."""
    kinds, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        kinds.append(type(node).__name__)
        waiting += reversed(list(ast.iter_child_nodes(node)))
    return kinds


def overlap(first: Structure, second: Structure) -> float:
    """Shared runs of all runs, 0 to 1 (Jaccard); 0 where there are none."""
    both = len(first | second)
    return len(first & second) / both if both else 0.0


def similar(source: str, others: Mapping[str, str]) -> tuple[tuple[str, float], ...]:
    """Which other sources are much the same, nearest first."""
    own = structure(source)
    ratios = {name: overlap(own, structure(other)) for name, other in others.items()}
    ordered = sorted(ratios.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple((name, ratio) for name, ratio in ordered if ratio >= SIMILAR)
