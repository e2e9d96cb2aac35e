"""Which elements were wrong: bins, counts, sums, and the sentence that is made of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from selectivbench.anatomy import (
    AXES,
    LEAST,
    LISTED,
    Anatomy,
    Described,
    Facet,
    Mistake,
    Property,
    diagnose,
    dissect,
    doubling,
    merged,
    up_to,
)

NAMES = ("A0", "A1", "B0", "B1")


def facet(by: str, bins: str, shares: tuple[float, ...], each: int = 100) -> Facet:
    rights = tuple(round(share * each) for share in shares)
    return Facet(by, tuple(bins.split()), (each,) * len(shares), rights, (each,) * len(shares))


def said(*facets: Facet) -> str:
    return diagnose(Anatomy(facets, wrong=1, rivals=0))


def test_hits_are_counted_by_bin_beside_what_can_be_known() -> None:
    described = Described(
        asked=np.array([0, 1, 2, 3, 0]),
        best=np.array([True, True, False, True, True]),
        rivals=np.array([[1], [0], [3], [2], [1]]),
        properties=(Property("gap", ("1", "2", "3"), np.array([0, 0, 2, 2, -1])),),
    )
    anatomy = dissect(described, np.array([0, 0, 2, 0, 1]), NAMES)
    assert anatomy.facets == (Facet("gap", ("1", "3"), (2, 2), (1, 1), (2, 1)),)
    assert (anatomy.wrong, anatomy.rivals) == (3, 2)  # B1 was taken for A0, which is no rival
    pairs = (("A0", "A1"), ("A1", "A0"), ("B1", "A0"))
    assert anatomy.mistakes == tuple(Mistake(*pair, 1) for pair in pairs)


def test_only_the_most_frequent_mistakes_are_named() -> None:
    asked = np.repeat(np.arange(12), np.arange(12) + 1)
    described = Described(asked, asked >= 0, np.full((len(asked), 1), -1), ())
    anatomy = dissect(described, (asked + 1) % 12, [f"{i:02}" for i in range(12)])
    assert anatomy.mistakes[0] == Mistake("11", "00", 12)
    assert len(anatomy.mistakes) == LISTED
    assert (anatomy.wrong, anatomy.rivals) == (78, 0)


@pytest.mark.parametrize(
    ("made", "bins", "place"),
    [
        (up_to("x", np.array([0, 3, 9]), most=3), "0 1 2 3 4+", [0, 3, 4]),
        (up_to("x", np.array([[0, 1], [2, 9]]), most=1, first=1), "1 2+", [-1, 0, 1, 1]),
        (doubling("x", np.array([0, 1, 8, 9, 16, 17])), "1-8 9-16 17-32", [-1, 0, 0, 1, 1, 2]),
        (doubling("x", np.array([1, 2, 3, 5]), first=2), "1-2 3-4 5-8", [0, 0, 1, 2]),
        (doubling("x", np.array([0])), "1-8", [-1]),
    ],
)
def test_bins(made: Property, bins: str, place: list[int]) -> None:
    assert made.bins == tuple(bins.split())
    assert made.place.tolist() == place


def test_seeds_and_splits_add_up_in_the_order_of_their_numbers() -> None:
    one = Anatomy((facet("gap", "9 10", (0.9, 0.8)),), 30, 20, (Mistake("A0", "A1", 4),))
    two = Anatomy((facet("gap", "10 100", (0.6, 0.1)), facet("known", "3+ none", (1, 1))), 9, 1,
                  (Mistake("A0", "A1", 3), Mistake("B0", "A1", 5)))  # fmt: skip
    both = merged([one, two])
    assert both.facets == (
        Facet("gap", ("9", "10", "100"), (100, 200, 100), (90, 140, 10), (100, 200, 100)),
        facet("known", "3+ none", (1, 1)),
    )
    assert (both.wrong, both.rivals) == (39, 21)
    assert both.mistakes == (Mistake("A0", "A1", 7), Mistake("B0", "A1", 5))
    assert merged([one]) == one
    assert merged([]) == Anatomy((), 0, 0)


@pytest.mark.parametrize(
    ("by", "bins", "shares", "sentence"),
    [
        ("memory", "1 2 3 4+", (1, 1, 0.3, 0.3), "fails beyond 2 symbols of memory: 0.30 of what "
         "can be known is named there, 1.00 elsewhere"),
        ("memory", "1 2 3+", (1, 0.1, 0.1), "fails beyond 1 symbol of memory"),
        ("gap", "10 20 50", (0.9, 0.8, 0.2), "fails after gaps beyond 20"),
        ("distractor", "0 1 2 3+ none", (0.2, 0.9, 1, 1, 1), "fails at a distractor"),
        ("distractor", "0 1 2 3+", (0.1, 0.2, 1, 1), "fails up to 1 element after a distractor"),
        ("known", "1-2 3-4 5-8", (1, 1, 0.2), "fails more than 4 elements after a plain state"),
        ("distance", "1-8 9-16 17-32", (1, 0.6, 0.6), "is weakest beyond 8 steps"),
        ("place", "1 2 3 4", (1, 1, 1, 0), "fails after answer 3"),
        ("place", "1 2 3 4", (0, 1, 1, 1), "fails up to answer 1"),
        ("colour", "1 2", (1, 0), "fails beyond colour 1"),
    ],
)  # fmt: skip
def test_the_worse_side_is_told(by: str, bins: str, shares: tuple[float, ...], sentence: str):
    assert said(facet(by, bins, shares)).startswith(sentence)


def test_of_the_cuts_of_a_facet_one_with_a_failing_side_is_told() -> None:
    """Beyond 1 explains more, but 0.55 is no failure."""
    memory = Facet("memory", ("1", "2", "3"), (900, 900, 60), (900, 510, 18), (900, 900, 60))
    assert said(memory).startswith("fails beyond 2 symbols of memory: 0.30")
    short = Facet("memory", ("1", "2"), (900, 960), (900, 528), (900, 960))
    assert said(short).startswith("is weakest beyond 1 symbol of memory: 0.55")


def test_of_two_facets_the_one_that_explains_more_is_told() -> None:
    few = facet("memory", "1 2", (1.0, 0.1), each=50)
    many = facet("gap", "1 2", (1.0, 0.6), each=1_000)
    assert said(few).startswith("fails beyond 1 symbol of memory")
    assert said(few, many) == said(many, few) == said(many)
    assert said(many).startswith("is weakest after gaps beyond 1")


@pytest.mark.parametrize(
    "spread",
    [
        facet("memory", "1 2 3", (0.81, 0.8, 0.79)),  # no difference
        facet("memory", "1 2", (1.0, 0.0), each=LEAST - 1),  # too few to tell
        facet("memory", "1", (0.2,)),  # nothing to compare with
        replace(facet("memory", "1 2", (0.9, 0.0)), best=(100, 0)),  # nobody could know
    ],
)
def test_errors_that_keep_to_no_side_give_no_sentence(spread: Facet) -> None:
    assert said(spread) == ""


def test_every_axis_can_be_spoken() -> None:
    for by in AXES:
        for shares in ((1.0, 0.0), (0.0, 1.0)):
            sentence = said(facet(by, "1 2", shares))
            assert sentence.startswith("fails ")
            assert "{" not in sentence
