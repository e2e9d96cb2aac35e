"""The oracle against explanations counted by hand, and against the published figures."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selectivbench.errors import UsageError
from selectivbench.grammar import Grammar
from selectivbench.oracle import Distractors, Oracle
from selectivbench.seeds import Stream
from selectivbench.tasks import get_task
from selectivbench.tasks.elements import ElementData, Plan, oracle_of
from selectivbench.walks import Walker

# ambiguity, seed: floor, windows of 2, 3, 4, ceiling; 200 elements, measured on the reference
PUBLISHED = {
    (8, 1): (0.273, 0.58, 0.84, 0.94, 1.0),
    (8, 2): (0.257, 0.61, 0.85, 0.95, 0.9894),
    (8, 3): (0.256, 0.56, 0.80, 0.91, 1.0),
    (8, 4): (0.325, 0.61, 0.84, 0.93, 0.9961),
    (24, 3): (0.0906, 0.27, 0.52, 0.76, 0.9953),
    (40, 1): (0.0601, 0.18, 0.37, 0.62, 0.9944),
}


def reach(grammar, state, room):
    """The chance of meeting the end within ``room`` transitions, by recursion."""
    if state == grammar.end:
        return 1.0
    if room == 0:
        return 0.0
    pairs = zip(grammar.successor[state], grammar.chance[state], strict=True)
    return sum(p * reach(grammar, t, room - 1) for t, p in pairs if t >= 0)


def continuations(walker, state, room):
    """(next state, room left, chance) given that the string ends in time."""
    grammar = walker.grammar
    if state == grammar.end:
        options = [(s, walker.longest - 1, 1.0) for s in grammar.starts]
    else:
        pairs = zip(grammar.successor[state], grammar.chance[state], strict=True)
        options = [(int(t), room - 1, p) for t, p in pairs if t >= 0]
    weights = [p * reach(grammar, t, left) for t, left, p in options]
    return [
        (t, left, w / sum(weights)) for (t, left, _), w in zip(options, weights, strict=True) if w
    ]


def explanations(walker, noise, length, tokens):
    """Every (state, room, element index, just distracted, weight) that explains the tokens."""
    grammar = walker.grammar
    foreign = noise.foreign(walker)
    found = [(grammar.end, 0, -1, True, 1.0)]
    for x in tokens:
        further = []
        for state, room, index, distracted, weight in found:
            may = not distracted and index >= noise.onset and foreign[state].any()
            aside = noise.probability if may else 0.0
            if may and foreign[state, x]:
                further.append((state, room, index, True, weight * aside / foreign[state].sum()))
            if index + 1 < length:
                for t, left, chance in continuations(walker, state, room):
                    if grammar.symbol_of[t] == x:
                        further.append((t, left, index + 1, False, weight * (1 - aside) * chance))
        found = further
    return found


def posterior(walker, noise, length, tokens):
    belief = Counter()
    for state, _, _, _, weight in explanations(walker, noise, length, tokens):
        belief[state] += weight
    return belief


@given(st.integers(0, 3000), st.integers(0, 200), st.sampled_from([0.0, 0.1, 0.5]), st.booleans())
@settings(deadline=None, max_examples=15)
def test_the_filter_is_the_posterior(seed, index, probability, after_end):
    """Exactly the likeliest state among all explanations of the tokens, distractors included."""
    grammar = Grammar.random(seed, ambiguities=3)
    shortest = 1 + int(grammar.distance_to_end[list(grammar.starts)].min())
    noise = Distractors(probability, onset=1, after_end=after_end)
    oracle = Oracle(Walker(grammar, shortest + 3), 6, noise)
    tokens = sample_tokens(oracle, index)
    (guess,), _ = oracle.filter(tokens[None])
    for t in range(len(tokens)):
        belief = posterior(oracle.walker, noise, 6, tokens[: t + 1])
        assert belief[guess[t]] >= max(belief.values()) * (1 - 1e-9)


def sample_tokens(oracle, index):
    """One sequence with distractors, drawn plainly."""
    (walk,) = oracle.walker.native(Stream.named("oracle"), np.array([index]), oracle.length)
    rng, tokens = np.random.default_rng(index), []
    foreign = oracle.distractors.foreign(oracle.walker)
    for i, state in enumerate(walk):
        tokens.append(oracle.walker.grammar.symbol_of[state])
        late = i >= oracle.distractors.onset and rng.random() < oracle.distractors.probability
        if late and foreign[state].any():
            tokens.append(rng.choice(np.flatnonzero(foreign[state])))
    return np.array(tokens, dtype=np.int16)


@given(st.integers(0, 3000), st.integers(0, 200))
@settings(deadline=None, max_examples=25)
def test_the_odds_of_the_next_symbol_are_exact(seed, index):
    grammar = Grammar.random(seed, ambiguities=3)
    shortest = 1 + int(grammar.distance_to_end[list(grammar.starts)].min())
    walker = Walker(grammar, shortest + 2)
    oracle = Oracle(walker, 5)
    tokens = sample_tokens(oracle, index)
    _, odds = oracle.filter(tokens[None], want_next=True)
    assert odds.shape == (1, 5, grammar.n_symbols)
    for t in range(5):
        found = explanations(walker, Distractors(), 99, tokens[: t + 1])
        expected = np.zeros(grammar.n_symbols)
        for state, room, _, _, weight in found:
            for after, _, chance in continuations(walker, state, room):
                expected[grammar.symbol_of[after]] += weight * chance
        assert odds[0, t] == pytest.approx(expected / expected.sum(), abs=1e-9)


@given(st.integers(1, 500), st.integers(1, 39), st.integers(0, 2**32), st.sampled_from([0.0, 0.3]))
@settings(deadline=None, max_examples=25)
def test_the_filter_is_causal(seed, cut, chaos, probability):
    """What comes later changes no guess before it."""
    oracle = oracle_of(seed % 7 + 1, 6, 40, Distractors(probability, onset=5))
    tokens = np.concatenate([sample_tokens(oracle, seed), np.full(3, -2, np.int16)])
    changed = tokens.copy()
    other = np.resize(sample_tokens(oracle, chaos % 1000), len(tokens))  # explained or not
    changed[cut:] = other[cut:] if chaos % 2 else -2
    before, odds = oracle.filter(tokens[None], want_next=True)
    after, odds_after = oracle.filter(changed[None], want_next=True)
    assert (before[0, :cut] == after[0, :cut]).all()
    assert (odds[0, :cut] == odds_after[0, :cut]).all()
    for k in (1, 3):
        assert (
            oracle.window(tokens[None], k)[0, :cut] == oracle.window(changed[None], k)[0, :cut]
        ).all()


@pytest.mark.parametrize(("which", "published"), PUBLISHED.items())
def test_published_levels(which, published):
    """Floor and ceiling within .005 of figures measured on the reference (another split)."""
    ambiguities, seed = which
    data = ElementData("levels", Plan(ambiguities, 200, train=0, held_out=200), seed)
    levels = data.levels()
    # a share of small grammars' elements: three standard errors of ours and of theirs
    assert levels.floor == pytest.approx(published[0], abs=0.005 if ambiguities > 8 else 0.012)
    assert levels.ceiling == pytest.approx(published[4], abs=0.002)
    assert levels.windows[0] == levels.floor
    assert levels.windows[1:] == pytest.approx(published[1:4], abs=0.02)
    expected_floor = data.oracle.seen.max(axis=1).sum() / 200  # exact, no sample
    assert levels.floor == pytest.approx(expected_floor, abs=0.012)


@pytest.mark.parametrize(
    ("ambiguities", "seed", "floor", "ceiling"),
    [(8, 1, 0.266, 0.9991), (8, 2, 0.248, 0.9886), (8, 4, 0.315, 0.9952), (24, 3, 0.0882, 0.9948)],
)
def test_published_levels_with_distractors(ambiguities, seed, floor, ceiling):
    """With distractors after the end as published, where one may look like a new string."""
    noise = Distractors(0.1, onset=50, after_end=True)
    plan = Plan(ambiguities, 200, train=0, held_out=200, gap=(0, 0), distractors=noise)
    levels = ElementData("levels", plan, seed).levels()
    assert levels.floor == pytest.approx(floor, abs=0.01)
    assert levels.ceiling == pytest.approx(ceiling, abs=0.003)


@given(st.integers(1, 1000), st.integers(3, 6))
@settings(deadline=None, max_examples=15)
def test_levels_are_ordered(seed, ambiguities):
    levels = ElementData("levels", Plan(ambiguities, 30, train=0, held_out=200), seed).levels()
    assert levels.chance <= levels.floor + 0.02
    assert levels.floor <= levels.windows[1] + 0.02 <= levels.windows[2] + 0.04
    assert levels.windows[3] <= levels.ceiling + 0.02
    assert levels.memoryless <= levels.floor + 0.02


@pytest.mark.parametrize("seed", [1, 2])
def test_what_follows_one_symbol_is_counted_from_occupancy(seed):
    """k = 1 by hand: the usual mass of the states that show the symbol, one step on."""
    oracle = oracle_of(seed, 8, 32, Distractors())
    grammar = oracle.walker.grammar
    usual = oracle.occupancy.sum(axis=0)
    odds = oracle.window_next(np.arange(grammar.n_symbols, dtype=np.int16)[:, None], 1)[:, 0]
    first = np.bincount(grammar.symbol_of, oracle.opening, grammar.n_symbols)
    for symbol, row in enumerate(odds):
        states = np.flatnonzero(grammar.symbol_of == symbol)
        flow = np.array([first if s == grammar.end else oracle.flow[s] for s in states])
        by_hand = usual[states] @ flow
        np.testing.assert_allclose(row, by_hand / by_hand.sum(), atol=1e-12)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_longer_windows_predict_better(seed):
    levels = get_task("next_symbol").dataset("smoke", "all", seed).levels("test")
    figures = (levels.chance, levels.floor, *levels.windows, levels.ceiling)
    assert list(figures) == sorted(figures)
    assert len(levels.windows) == 4


@given(st.integers(1, 1000))
@settings(deadline=None, max_examples=10)
def test_occupancy_is_a_distribution_and_agrees_with_walks(seed):
    oracle = oracle_of(seed, 4, 25, Distractors())
    assert oracle.occupancy.sum(axis=1) == pytest.approx(np.ones(25))
    walks = oracle.walker.native(Stream.named("occupancy"), np.arange(4000), 25)
    for t in (0, 1, 7, 24):
        seen = np.bincount(walks[:, t], minlength=oracle.walker.grammar.n_states) / 4000
        assert seen == pytest.approx(oracle.occupancy[t], abs=0.05)


def test_the_step_by_step_predictor_loses_its_symbol_in_a_long_gap():
    """Posteriors summed over steps: after many blanks what is usual outweighs what was shown."""
    oracle = oracle_of(2, 8, 200, Distractors())
    symbols = np.arange(1, 9, dtype=np.int16)[None]
    blank = np.full_like(symbols, -1)
    held = oracle.step_by_step(symbols, blank, np.zeros(symbols.shape, np.int64))
    assert (held == oracle.memoryless(symbols)).all()
    lost = oracle.step_by_step(symbols, blank, np.full(symbols.shape, 1000))
    assert set(lost.ravel().tolist()) == {int(oracle.occupancy.mean(axis=0).argmax())}


def test_natively_no_distractor_after_the_end_begins_a_string():
    walker = oracle_of(2, 8, 40, Distractors()).walker
    grammar = walker.grammar
    beginnings = grammar.symbol_of[list(grammar.starts)]
    assert not Distractors().foreign(walker)[grammar.end, beginnings].any()
    assert Distractors(after_end=True).foreign(walker)[grammar.end].all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Distractors(1.0), "distractor probability: got 1.0"),
        (lambda: Distractors(-0.1), "distractor probability"),
        (lambda: Distractors(0.1, onset=-1), "distractor onset: got -1"),
        (lambda: oracle_of(2, 8, 1, Distractors()), "elements of a walk: got 1"),
        (
            lambda: oracle_of(2, 8, 9, Distractors()).window(np.zeros((1, 2), np.int16), 0),
            "window: got 0",
        ),
        (lambda: Plan(8, 20, 10, 10, gap=(3, 2)), "gap"),
        (lambda: Plan(8, 20, 10, 10, gaps=(("test", (-1, 2)),)), "gap"),
        (lambda: Plan(8, 20, -1, 10), "samples: got -1"),
    ],
)
def test_bad_parameters_are_refused(make, words):
    with pytest.raises(UsageError, match=words):
        make()
