"""What a task says of its elements agrees with its batches, its levels and a slow count."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from selectivbench.anatomy import AXES, dissect
from selectivbench.batch import IGNORE
from selectivbench.metrics import element_guesses
from selectivbench.oracle import Distractors
from selectivbench.tasks import TASKS, get_task
from selectivbench.tasks.properties import (
    DEEPEST,
    after_distractor,
    after_gap,
    memory_needed,
    since_plain,
)

CASES = [
    (task.name, split)
    for task in TASKS
    if task.name != "next_symbol"
    for split in task.dataset("smoke", task.variants["smoke"][0], 1).evaluations
]


@cache
def smoke(name):
    task = get_task(name)
    return task.dataset("smoke", task.variants["smoke"][0], 1)


@pytest.mark.parametrize(("name", "split"), CASES)
def test_elements_are_described_in_the_order_in_which_they_are_marked(name, split):
    data = smoke(name)
    batch, described = data.batch(split, range(data.sizes[split])), data.described(split)
    logits = np.eye(data.n_classes, dtype=np.float32)[np.maximum(batch.targets, 0)]
    guesses, asked = element_guesses(logits, batch.targets, batch.element)
    assert described.asked.tolist() == asked.tolist() == guesses.tolist()
    assert described.best.mean() == pytest.approx(data.levels(split).ceiling)
    for found in described.properties:
        assert found.by in AXES
        assert len(found.place) == len(asked)
        assert -1 <= found.place.min() <= found.place.max() < len(found.bins)
    anatomy = dissect(described, guesses, data.class_names)
    assert (anatomy.wrong, anatomy.rivals, anatomy.mistakes) == (0, 0, ())


@pytest.mark.parametrize(("name", "split"), CASES)
def test_a_rival_is_a_class_and_never_the_one_asked(name, split):
    data = smoke(name)
    described = data.described(split)
    assert (described.rivals < data.n_classes).all()
    if name not in ("selective_copy",):  # which may hold a symbol twice
        assert (described.rivals != described.asked[:, None]).all()


def test_odds_are_neither_right_nor_wrong():
    assert smoke("next_symbol").described("test") is None


def test_rivals_in_a_grammar_share_the_symbol():
    data = smoke("memorization")
    described = data.described("test")
    for asked, rivals in zip(described.asked[:50], described.rivals[:50], strict=True):
        letter = data.class_names[asked][0]
        names = {data.class_names[i] for i in rivals if i != IGNORE}
        wanted = {name for name in data.class_names if name[0] == letter}
        assert names == wanted - {data.class_names[asked]}


def test_memory_needed_is_the_last_window_that_differs_from_the_filter():
    data = smoke("memorization")
    symbols = data.elements("test", np.arange(20)).symbols
    answer, _ = data.oracle.filter(symbols)
    windows = {k: data.oracle.window(symbols, k) for k in range(1, DEEPEST + 1)}
    needed = memory_needed(data.oracle, symbols, answer)
    for where in np.ndindex(*symbols.shape):
        differ = [k for k, guess in windows.items() if guess[where] != answer[where]]
        assert needed[where] == 1 + max(differ, default=0)
    assert set(needed.ravel()) > {1, 2, 3, 4}


def test_a_distractor_asks_for_no_memory():
    data = smoke("distractors")
    states = data.elements("test", np.arange(20)).states
    symbols = data.grammar.symbol_of[states]
    clean = replace(data.oracle, distractors=Distractors())
    answer, _ = clean.filter(symbols)
    nonsense = np.full_like(answer, -1)
    assert (
        memory_needed(data.oracle, symbols, nonsense) == memory_needed(clean, symbols, answer)
    ).all()


def test_the_end_symbol_is_plain_and_so_is_the_begin():
    data = smoke("memorization")
    symbols = data.elements("test", np.arange(64)).symbols
    end = data.grammar.symbol_of[data.grammar.end]
    for row, since in zip(symbols, since_plain(data.grammar, symbols), strict=True):
        last = -1
        for place, symbol in enumerate(row):
            last = place if symbol == end else last
            assert since[place] == place - last
    assert (symbols == end).any()


def test_gaps_count_before_an_element_and_distractors_from_the_one_they_interrupt():
    gaps = np.array([[0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1]])
    assert after_gap(3 * gaps).place.tolist() == [-1, 0, 3, 0, 0, 0, -1, 0, 0, 0, 0, 3]
    found = after_distractor(gaps)
    names = [found.bins[i] for i in found.place]
    assert names == ["none", *["0", "1", "2", "3+", "3+"], *["none"] * 4, "0", "0"]


@pytest.mark.parametrize("name", ["selective_copy", "mqar", "induction"])
def test_the_source_of_an_answer_shows_it(name):
    data = smoke(name)
    batch = data.batch(data.evaluations[-1], range(32))
    asked = np.nonzero(batch.element != IGNORE)[1].reshape(32, -1)
    shown = np.take_along_axis(batch.tokens, data.sources(batch.tokens, asked), axis=1)
    answers = np.take_along_axis(batch.targets, asked, axis=1)
    for token, answer in zip(shown.ravel(), answers.ravel(), strict=True):
        assert data.symbol_names[token] == data.class_names[answer]


def test_a_model_that_forgets_fails_beyond_its_memory():
    """The window of two symbols, as a model: its anatomy says just that."""
    from selectivbench.anatomy import diagnose

    data = get_task("memorization").dataset("lite", "amb8", 1)
    symbols = data.elements("test", np.arange(data.sizes["test"])).symbols
    guesses = data.grammar.class_of[data.oracle.window(symbols, 2)].ravel()
    anatomy = dissect(data.described("test"), guesses, data.class_names)
    assert diagnose(anatomy).startswith("fails beyond 2 symbols of memory: ")
    assert anatomy.rivals == anatomy.wrong > 0
