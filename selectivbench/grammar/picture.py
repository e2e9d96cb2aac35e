"""A grammar as a text table, and as a picture (SVG) of its graph."""

from __future__ import annotations

from html import escape
from math import cos, pi, sin

import numpy as np

from selectivbench.grammar.model import Grammar

RADIUS, NODE, MARGIN = 260.0, 15.0, 70.0
MOST_LABELS = 80
"""States beyond which nodes shrink to dots without names."""


def table(grammar: Grammar, limit: int | None = None) -> str:
    """One line a state: its name, its class, whether strings start there, what follows.

    >>> from selectivbench.grammar.presets import elman
    >>> print(table(elman(), limit=3))
    state  class  symbol  start  successors
    b          2  b       yes    a 1
    d          3  d       yes    i0 1
    g          4  g       yes    u0 1
    (7 more states)
    """
    width = max(5, *(len(name) for name in grammar.states))
    lines = [f"{'state':<{width}}  class  symbol  start  successors"]
    shown = grammar.states[:limit]
    for i, name in enumerate(shown):
        kind = str(grammar.class_of[i]) if grammar.reachable[i] else "-"
        start = "yes" if i in grammar.starts else ""
        symbol = grammar.symbols[grammar.symbol_of[i]]
        line = f"{name:<{width}}  {kind:>5}  {symbol:<6}  {start:<5}  {_successors(grammar, i)}"
        lines.append(line.rstrip())
    left = grammar.n_states - len(shown)
    return "\n".join(lines + [f"({left} more states)"] * bool(left))


def _successors(grammar: Grammar, state: int) -> str:
    """``A0 0.5, B1 0.5`` in state order."""
    symbols = np.flatnonzero(grammar.successor[state] >= 0)
    pairs = sorted((int(grammar.successor[state, x]), grammar.chance[state, x]) for x in symbols)
    return ", ".join(f"{grammar.states[target]} {chance:.3g}" for target, chance in pairs)


def svg(grammar: Grammar) -> str:
    """The graph on a circle, states of one symbol side by side in one colour; a start has a heavy
    rim, the end a double one. Text of the picture is escaped, and it loads nothing.
    """
    order = np.argsort(grammar.state_id)
    angles = {int(s): 2 * pi * k / len(order) - pi / 2 for k, s in enumerate(order)}
    size = 2 * (RADIUS + MARGIN)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size:g} {size:g}" role="img">'
        f"<title>{escape(str(grammar))}</title>"
        '<style>text{font:11px sans-serif;text-anchor:middle;dominant-baseline:central}'
        f"path{{fill:none;stroke:#777}}</style>{_arrow(_radius(grammar))}"
    )  # fmt: skip
    edges = [_edge(grammar, angles, s, x) for s, x in np.argwhere(grammar.successor >= 0)]
    nodes = [_node(grammar, int(s), angles[int(s)]) for s in order]
    return "\n".join([head, *edges, *nodes, "</svg>"])


def _place(angle: float, radius: float = RADIUS) -> tuple[float, float]:
    centre = RADIUS + MARGIN
    return centre + radius * cos(angle), centre + radius * sin(angle)


def _edge(grammar: Grammar, angles: dict[int, float], source: int, symbol: int) -> str:
    """A curve bent towards the centre, the fainter the less likely; a loop stands outside."""
    target = int(grammar.successor[source, symbol])
    (x0, y0), (x1, y1) = _place(angles[int(source)]), _place(angles[target])
    bend = [_place(angles[int(source)], RADIUS * 0.3)]
    if target == source:
        spread = (angles[target] - 0.2, angles[target] + 0.2)
        bend = [_place(angle, RADIUS + 3.2 * NODE) for angle in spread]
    control = " ".join(f"{x:.1f},{y:.1f}" for x, y in bend)
    letter = "QC"[len(bend) - 1]
    opacity = 0.25 + 0.75 * grammar.chance[source, symbol]
    path = f"M{x0:.1f},{y0:.1f} {letter}{control} {x1:.1f},{y1:.1f}"
    return f'<path d="{path}" opacity="{opacity:.2f}" marker-end="url(#to)"/>'


def _radius(grammar: Grammar) -> float:
    """Of a node."""
    return NODE if grammar.n_states <= MOST_LABELS else 3.0


def _arrow(radius: float) -> str:
    """An edge ends in the middle of its node: the head stands back by the node's radius."""
    return (
        f'<defs><marker id="to" viewBox="0 0 8 8" refX="{8 + radius:g}" refY="4" markerWidth="8" '
        'markerHeight="8" markerUnits="userSpaceOnUse" orient="auto" overflow="visible">'
        '<polygon points="0,0 8,4 0,8" fill="#555"/></marker></defs>'
    )


def _node(grammar: Grammar, state: int, angle: float) -> str:
    """A disc, coloured by symbol, named where there is room."""
    x, y = _place(angle)
    named, radius = grammar.n_states <= MOST_LABELS, _radius(grammar)
    hue = 360 * int(grammar.symbol_of[state]) / grammar.n_symbols
    rim = 3 if state in grammar.starts else 1
    disc = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{{:g}}" fill="hsl({hue:.0f} 60% 85%)" stroke="#222"'
    )
    discs = [disc.format(radius) + f' stroke-width="{rim}"/>']
    if state == grammar.end:
        discs.append(disc.format(radius - 3 if named else 1) + "/>")
    if named:
        discs.append(f'<text x="{x:.1f}" y="{y:.1f}">{escape(grammar.states[state])}</text>')
    return "".join(discs)
