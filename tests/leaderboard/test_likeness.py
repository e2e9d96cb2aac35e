"""Entries of much the same structure: found by structure, few names, nobody is near to nothing."""

from __future__ import annotations

from pathlib import Path

from leaderboard.likeness import MOST, likenesses

LAYER = """
class Mixer(Module):
    def __init__(self, spec):
        super().__init__()
        self.layer = Linear(spec.d_model, spec.d_model)

    def forward(self, x):
        return self.layer(x) + x
"""
OTHER = "def Model(spec):\n    return [i * i for i in range(spec.n) if i % 2 or spec.flag]\n"


def test_a_copy_with_other_names_is_found_both_ways() -> None:
    copy = LAYER.replace("layer", "projection").replace("x", "inputs")
    near = likenesses({"a": LAYER, "b": copy, "c": OTHER})
    assert near == {"a": (("b", 1.0),), "b": (("a", 1.0),)}


def test_a_slightly_changed_one_is_near_and_not_equal() -> None:
    source = (Path(__file__).parents[2] / "submissions" / "gru.py").read_text(encoding="utf-8")
    near = likenesses({"a": source, "b": source + "\nx = 1\n"})
    assert 0.8 <= near["a"][0][1] < 1
    assert near["b"][0] == ("a", near["a"][0][1])


def test_many_copies_give_few_names_and_texts_that_are_no_python_none() -> None:
    sources = {f"e{i:03d}": LAYER for i in range(300)} | {"broken": "class (", "empty": ""}
    near = likenesses(sources)
    assert {len(found) for found in near.values()} == {MOST}
    assert all(entry not in dict(found) for entry, found in near.items())
    assert not near.keys() & {"broken", "empty"}
