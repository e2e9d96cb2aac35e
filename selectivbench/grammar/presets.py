"""Two grammars of the literature, for teaching and for tests by hand."""

from __future__ import annotations

from selectivbench.errors import UsageError, explain, near
from selectivbench.grammar.model import Grammar


def reber() -> Grammar:
    """Reber (1967), figure 1: strings such as BTXSE and BPVPSE, written with states that emit.

    >>> reber().n_states, reber().n_symbols
    (13, 8)
    """
    return _even(
        {
            "B": ("T0", "P0"), "T0": ("S0", "X0"), "S0": ("S0", "X0"), "X0": ("X1", "S1"),
            "P0": ("T1", "V0"), "T1": ("T1", "V0"), "X1": ("T1", "V0"), "V0": ("P1", "V1"),
            "P1": ("X1", "S1"), "S1": ("E",), "V1": ("E",), "E": ("#",),
        },
        starts=("B",),
    )  # fmt: skip


def elman() -> Grammar:
    """Elman (1990), section "Discovering the notion word": the syllables ba, dii and guuu in random
    order, which here may also end the string.

    >>> print(elman())
    Grammar: 10 states, 7 symbols, 18 transitions, 3 starts, topological entropy 0.5508 nats
    """
    after = ("b", "d", "g", "#")
    return _even(
        {
            "b": ("a",), "a": after, "d": ("i0",), "i0": ("i1",), "i1": after,
            "g": ("u0",), "u0": ("u1",), "u1": ("u2",), "u2": after,
        },
        starts=("b", "d", "g"),
    )  # fmt: skip


PRESETS = {"reber": reber, "elman": elman}


def preset(name: str) -> Grammar:
    """A preset by name; UsageError that lists them for another.

    >>> preset("reber") == reber()
    True
    """
    if name not in PRESETS:
        raise UsageError(explain("preset grammar", name, near(name, PRESETS)))
    return PRESETS[name]()


def _even(successors: dict[str, tuple[str, ...]], starts: tuple[str, ...]) -> Grammar:
    """The grammar in which all successors of a state are equally likely."""
    edges = [(s, t, 1 / len(targets)) for s, targets in successors.items() for t in targets]
    return Grammar.from_transitions(edges, starts)
