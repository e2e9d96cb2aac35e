"""Artificial grammars: immutable, printable, generated bit for bit like the published ones.

>>> grammar = Grammar.random(seed=2, ambiguities=8)
>>> grammar.n_states, grammar.n_transitions, round(grammar.topological_entropy, 4)
(65, 199, 1.2007)
"""

from selectivbench.grammar.model import END, Grammar

__all__ = ["END", "Grammar"]
