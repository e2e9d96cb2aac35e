"""Walks: bit for bit the published ones, or the same distribution without rejection."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from bisect import bisect_right

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selectivbench.errors import UsageError
from selectivbench.grammar import Grammar
from selectivbench.grammar.presets import elman
from selectivbench.oracle import Oracle
from selectivbench.seeds import Stream, raw_words, uniforms
from selectivbench.walks import Walker, seed_sequence

from .golden import golden_files, load

STREAM = Stream.named("test", 1)
DIGESTS = {
    (5, 4, 3): "d8cedbb7649027fe",
    (2, 8, 8): "890495a1ce808dcd",
    (1, 20, 20): "87d5a0880698067d",
    (3, 24, 24): "66641bdd940aa1b0",
    (1, 40, 40): "493fd5a9b2f3bb3b",
}
ENDS_IN_TIME = {(1, 8): 0.98, (4, 8): 0.65, (2, 24): 0.33, (1, 40): 0.15, (4, 40): 0.09}


@pytest.mark.parametrize("path", golden_files("grammar_*"))
def test_published_sequences_in_full(path):
    content = load(path)
    grammar = Grammar.random(content["seed"], **content["gramm"])
    for name, sequences in content["sequences"].items():
        for published in sequences:
            where = np.array([published["idx"]])
            length = int(name.rpartition("_")[2])
            (walk,) = Walker(grammar).reference(content["seed"], where, length)
            assert [grammar.states[i] for i in walk] == published["state_seq"]
            assert grammar.symbol_of[walk].tolist() == published["class_seq"]
            assert grammar.state_id[walk].tolist() == published["target_seq"]


@pytest.mark.parametrize(("which", "digest"), DIGESTS.items())
def test_reference_digest(which, digest):
    seed, ambiguities, depth = which
    grammar = Grammar.random(seed, ambiguities=ambiguities, ambiguity_depth=depth)
    walks = Walker(grammar).reference(seed, np.arange(3))
    data = grammar.state_id[walks].astype("<i4").tobytes()
    assert hashlib.blake2b(data, digest_size=8).hexdigest() == digest


def plain_reference(grammar, seed, index, length, longest):
    """The published sequence with NumPy's own generator."""
    rng = np.random.default_rng(seed * index)
    walk = []
    while len(walk) < length:
        string = [grammar.starts[rng.integers(len(grammar.starts))]]
        while string[-1] != grammar.end and len(string) <= longest:
            row = sorted((t, p) for t, p in zip(*rows(grammar, string[-1]), strict=True))
            if len(row) == 1:
                string.append(row[0][0])
            else:
                string.append(row[bisect_right(np.cumsum([p for _, p in row]), rng.random())][0])
        if len(string) <= longest:
            walk += string
    return walk[:length]


def rows(grammar, state):
    symbols = np.flatnonzero(grammar.successor[state] >= 0)
    return grammar.successor[state, symbols].tolist(), grammar.chance[state, symbols].tolist()


@given(
    st.integers(0, 2**20),
    st.integers(2, 5),
    st.integers(1, 3),
    st.integers(0, 2**20),
    st.integers(5, 60),
)
@settings(deadline=None, max_examples=40)
def test_reference_walks_are_those_of_numpy(seed, ambiguities, starts, index, longest):
    grammar = Grammar.random(seed, ambiguities=ambiguities, initial_states=starts)
    walker = Walker(grammar, max(longest, grammar.n_states + 1))
    (ours,) = walker.reference(seed, np.array([index]), 50)
    assert ours.tolist() == plain_reference(grammar, seed, index, 50, walker.longest)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5))
def test_seed_sequences_are_those_of_numpy(seeds):
    ours = seed_sequence(np.array(seeds, dtype=np.uint64))
    for seed, row in zip(seeds, ours, strict=True):
        assert row.tolist() == np.random.SeedSequence(seed).generate_state(4, np.uint64).tolist()


@given(
    st.lists(st.integers(0, 2**62), min_size=1, max_size=4), st.integers(1, 9), st.integers(0, 5)
)
@settings(deadline=None)
def test_words_are_those_of_the_stream(indices, count, skip):
    ours = raw_words(STREAM, np.array(indices), count, skip=skip)
    for index, row in zip(indices, uniforms(ours), strict=True):
        assert row.tolist() == STREAM.rng(index).random(skip + count)[skip:].tolist()


def test_a_negative_index_is_refused():
    with pytest.raises(UsageError, match="sample index: got -3"):
        raw_words(STREAM, np.array([4, -3]), 1)


def plain_native(walker, numbers):
    """The conditioned chain, from one uniform number for each element."""
    grammar, survive, walk = walker.grammar, walker.survive, []
    for u in numbers:
        if not walk or walk[-1] == grammar.end:
            room = walker.longest - 1
            options = [(s, survive[room, s]) for s in grammar.starts]
        else:
            room -= 1
            pairs = sorted(zip(*rows(grammar, walk[-1]), strict=True))
            options = [(t, p * survive[room, t]) for t, p in pairs]
        options = [(t, w) for t, w in options if w > 0]
        edge = np.cumsum([w for _, w in options])
        walk.append(options[min(bisect_right(edge, u * edge[-1]), len(options) - 1)][0])
    return walk


@given(st.integers(0, 2**20), st.integers(2, 5), st.integers(0, 2**40), st.integers(0, 8))
@settings(deadline=None, max_examples=40)
def test_native_walks_follow_the_conditioned_chain(seed, ambiguities, index, slack):
    grammar = Grammar.random(seed, ambiguities=ambiguities)
    shortest = 1 + grammar.distance_to_end[list(grammar.starts)].min()
    walker = Walker(grammar, int(shortest) + slack)
    (ours,) = walker.native(STREAM, np.array([index]), 40)
    assert ours.tolist() == plain_native(walker, STREAM.rng(index).random(40))
    ends = np.flatnonzero(ours == grammar.end)
    assert (np.diff(np.concatenate([[-1], ends])) <= walker.longest).all()


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=20), st.integers(1, 60))
@settings(deadline=None, max_examples=25)
def test_a_walk_is_the_same_whoever_asks(indices, length):
    walker = Walker(Grammar.random(1, ambiguities=4))
    together = walker.native(STREAM, np.array(indices), length)
    longer = walker.native(STREAM, np.array(indices[:1]), length + 5)
    assert (longer[0, :length] == together[0]).all()
    for index, row in zip(indices, together, strict=True):
        assert (walker.native(STREAM, np.array([index]), length)[0] == row).all()


def chi_square_z(observed, expected):
    """Standard deviations by which a chi-square statistic exceeds its mean; cells under 10 pooled."""
    small = expected < 10
    observed = np.append(observed[~small], observed[small].sum())
    expected = np.append(expected[~small], expected[small].sum())
    observed, expected = observed[expected > 0], expected[expected > 0]
    freedom = len(expected) - 1
    return (((observed - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom)


@pytest.mark.parametrize("which", [(4, 8), (2, 8), (3, 4)])
def test_native_and_rejected_walks_have_the_exact_distribution(which):
    """State and age in the first string of 20,000 walks against the exact probabilities, at the
    level z = 6 (a chance below 1e-7 for each of the six comparisons)."""
    seed, ambiguities = which
    walker = Walker(Grammar.random(seed, ambiguities=ambiguities), longest=40)
    exact = Oracle(walker, 40).ages
    everyone = np.arange(1, 20_001)
    both = walker.native(STREAM, everyone, 40), walker.reference(seed, everyone, 40)
    for walks in both:
        alive = np.cumsum(walks == walker.grammar.end, axis=1) - (walks == walker.grammar.end) == 0
        for age in (0, 1, 3, 10, 39):
            here = np.bincount(walks[alive[:, age], age], minlength=walker.grammar.n_states)
            left = len(walks) * (1 - exact[age].sum())
            seen = np.append(here, len(walks) - here.sum())
            assert chi_square_z(seen, np.append(len(walks) * exact[age], left)) < 6


def test_the_test_of_distribution_can_fail():
    walker = Walker(Grammar.random(4, ambiguities=8), longest=40)
    exact = Oracle(walker, 40).ages[3]
    free = Walker(Grammar.random(4, ambiguities=8), longest=400).native(
        STREAM, np.arange(20_000), 4
    )[:, 3]
    seen = np.bincount(free, minlength=walker.grammar.n_states)
    assert chi_square_z(seen, 20_000 * exact / exact.sum()) > 6


@pytest.mark.parametrize(("which", "published"), ENDS_IN_TIME.items())
def test_how_many_strings_end_in_time(which, published):
    assert Walker(Grammar.random(which[0], ambiguities=which[1])).ends_in_time == pytest.approx(
        published, abs=0.0051
    )


def test_a_longest_string_that_none_meets_is_refused():
    with pytest.raises(UsageError, match="longest string: got 1, allowed: 3"):
        Walker(elman(), longest=1)


def test_hopeless_lengths_are_refused_as_published():
    with pytest.raises(UsageError, match="10,001 attempts"):
        Walker(elman()).reference(1, np.array([1]), length=5, shortest=199)


def test_a_dead_end_is_refused_for_reference_walks():
    grammar = Grammar.random(
        13, ambiguities=2, initial_states=1, require_exit_from_all=False, transition_density=0.15
    )
    assert (grammar.successor[grammar.reachable] < 0).all(axis=1).sum() > 1
    with pytest.raises(UsageError, match="dead end"):
        Walker(grammar).reference(13, np.arange(2))
    walks = Walker(grammar).native(STREAM, np.arange(50), 30)
    assert (grammar.distance_to_end[walks] < grammar.n_states).all()


@pytest.mark.parametrize("threads", ["1", "2"])
def test_another_process_and_thread_count_walk_the_same(threads):
    code = (
        "import numpy as np; from selectivbench.grammar import Grammar;"
        "from selectivbench.walks import Walker; from selectivbench.seeds import Stream;"
        "w = Walker(Grammar.random(2, ambiguities=8));"
        "print(w.native(Stream.named('p'), np.arange(4), 50).sum(), w.reference(2, np.arange(4)).sum())"
    )
    settings = {"NUMBA_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "PATH": ""}

    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **settings}
    )
    walker = Walker(Grammar.random(2, ambiguities=8))
    native = walker.native(Stream.named("p"), np.arange(4), 50).sum()
    assert result.stdout.split() == [str(native), str(walker.reference(2, np.arange(4)).sum())]
