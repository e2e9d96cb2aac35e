"""The compiled inner loops. Imported by :func:`selectivbench.compiled.kernels` only."""

from selectivbench.kernels.bits import philox
from selectivbench.kernels.edges import draw_edges
from selectivbench.kernels.filters import filter_states, window_states
from selectivbench.kernels.walking import conditioned_walks, lay_out, rejected_walks

__all__ = [
    "conditioned_walks",
    "draw_edges",
    "filter_states",
    "lay_out",
    "philox",
    "rejected_walks",
    "window_states",
]
