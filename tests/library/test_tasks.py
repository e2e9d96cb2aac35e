"""Every task of the registry keeps the contract, and its bytes are pinned."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from selectivbench.batch import BLANK, IGNORE, PAD
from selectivbench.errors import UsageError
from selectivbench.export import golden_hash
from selectivbench.tasks import TASKS, get_task
from selectivbench.tasks import checks as checks_module
from selectivbench.tasks.checks import digest, require_disjoint, require_memory
from selectivbench.tasks.gap_extrapolation import longest_gap
from selectivbench.tasks.recall import distinct

HASHES = Path(__file__).with_name("golden_hashes.json")
CASES = [(t.id, p, v) for t in TASKS for p in t.variants for v in t.variants[p]]
LIGHT = [case for case in CASES if case[1] != "paper"]
NAMES = [task.name for task in TASKS]


@cache
def dataset(task, profile, variant, seed=1):
    return get_task(task).dataset(profile, variant, seed)


def default(task, profile="smoke"):
    found = get_task(task)
    return dataset(found.id, profile, found.variants[profile][0])


def test_the_registry_is_pinned():
    assert NAMES == [
        "selective_copy", "memorization", "noisy_gaps", "gap_extrapolation", "distractors",
        "next_symbol", "mqar", "induction",
    ]  # fmt: skip
    second = {"noisy_gaps", "gap_extrapolation"}
    assert all(task.id.endswith("-v2" if task.name in second else "-v1") for task in TASKS)
    assert get_task("gap_extrapolation").trains_on == "noisy_gaps-v2"
    assert all(get_task(task.trains_on).id == task.trains_on for task in TASKS)


@pytest.mark.parametrize("case", LIGHT, ids="/".join)
def test_golden_hash(case):
    """A byte that changed here needs a new version of the task (see ``golden_hash``)."""
    assert json.loads(HASHES.read_text())["/".join(case)] == golden_hash(dataset(*case))


@pytest.mark.full
@pytest.mark.parametrize("case", [case for case in CASES if case not in LIGHT], ids="/".join)
def test_golden_hash_of_paper(case):
    assert json.loads(HASHES.read_text())["/".join(case)] == golden_hash(dataset(*case))


def test_every_case_has_a_hash_and_no_two_share_it():
    hashes = json.loads(HASHES.read_text())
    assert sorted(hashes) == sorted("/".join(case) for case in CASES)
    assert len(set(hashes.values())) == len(hashes)


@pytest.mark.parametrize("case", LIGHT, ids="/".join)
def test_floor_and_ceiling_leave_room_for_a_score(case):
    data = dataset(*case)
    for split in data.evaluations:
        levels = data.levels(split)
        assert levels.ceiling - levels.floor >= 0.2
        assert levels.chance <= levels.floor + 0.05
        assert levels.ceiling <= (0.0 if data.metric == "negative_kl" else 1.0)


@pytest.mark.parametrize("case", LIGHT, ids="/".join)
def test_what_a_dataset_says_of_itself_is_so(case):
    data = dataset(*case)
    assert {"train", "validation", *data.evaluations} <= set(data.sizes)
    for split in ("train", *data.evaluations):
        batch = data.batch(split, range(min(40, data.sizes[split])))
        assert batch.tokens.shape[1] <= data.max_length
        assert batch.targets.max() < data.n_classes
        assert batch.tokens.max() < data.encoding.n_symbols
        assert len(batch.noise_seeds) == (len(batch.tokens) if data.encoding.noise else 0)
        rows = data.encoding.encode(batch.tokens, batch.noise_seeds)
        assert rows.shape == (*batch.tokens.shape, data.encoding.n_inputs)
    assert len(data.class_names) == data.n_classes
    assert len(data.symbol_names) == data.encoding.n_symbols


@given(st.sampled_from(NAMES), st.integers(1, 40), st.data())
@settings(deadline=None, max_examples=60)
def test_masks_and_targets_agree(task, count, choice):
    """Loss and score fall on the same steps, elements are runs in order, padding is a silent tail."""
    data = default(task)
    split = choice.draw(st.sampled_from(sorted(data.sizes)))
    batch = data.batch(split, range(min(count, data.sizes[split])))
    asked = batch.targets != IGNORE
    assert ((batch.element != IGNORE) == asked).all()
    assert asked.any(axis=1).all()
    for tokens, element in zip(batch.tokens, batch.element, strict=True):
        live = np.count_nonzero(tokens != PAD)
        assert (tokens[live:] == PAD).all()
        assert (element[live:] == IGNORE).all()
        runs = element[element != IGNORE]
        assert (np.diff(runs) >= 0).all()
        assert (np.unique(runs) == np.arange(runs.max() + 1)).all()


@given(st.sampled_from(NAMES), st.lists(st.integers(0, 31), min_size=1, max_size=12), st.data())
@settings(deadline=None, max_examples=60)
def test_a_sample_is_the_same_whoever_asks(task, indices, choice):
    data = default(task)
    split = choice.draw(st.sampled_from(sorted(data.sizes)))
    together = data.batch(split, indices)
    for row, index in enumerate(indices):
        alone = data.batch(split, [index])
        steps = alone.tokens.shape[1]
        for name in ("tokens", "targets", "element"):
            assert (getattr(together, name)[row, :steps] == getattr(alone, name)[0]).all()
        assert (together.tokens[row, steps:] == PAD).all()
        assert (together.noise_seeds[row : row + 1] == alone.noise_seeds).all()


@given(st.sampled_from(NAMES), st.integers(0, 10_000))
@settings(deadline=None, max_examples=40)
def test_splits_are_disjoint_for_any_seed(task, seed):
    found = get_task(task)
    data = found.dataset("smoke", found.variants["smoke"][0], seed)
    try:
        assert data.disjoint  # it asserts so itself before the first batch
    except UsageError:  # refused: a grammar of few choices, one of whose short strings came twice
        reject()
    splits = {s: data.batch(s, range(size)).tokens for s, size in data.sizes.items()}
    train = {bytes(row[row != PAD]) for row in splits.pop("train")}
    for rows in splits.values():
        assert not train & {bytes(row[row != PAD]) for row in rows}


def test_a_shared_sample_is_found():
    def codes(split, where, first):
        rows = np.arange(30)[None] + 1000 * where[:, None]
        rows = rows + (0 if split == "train" else 500)
        rows[(where == 7) & (split == "test"), 2:] = 0 if first is None else 1
        return rows[:, :first]

    require_disjoint(codes, {"train": 50, "test": 20})

    def leaking(split, where, first):
        return codes("train" if split == "test" else "test", where, first) * (where[:, None] != 3)

    with pytest.raises(UsageError, match=r"training samples \[3\]"):
        require_disjoint(leaking, {"train": 50, "test": 20})


@pytest.mark.parametrize("task", NAMES)
def test_no_batch_leaves_before_the_splits_are_known_to_be_disjoint(task, monkeypatch):
    found = get_task(task)
    data = found.dataset("smoke", found.variants["smoke"][0], 1)
    monkeypatch.setattr(type(data), "codes", lambda _, _split, where, _first: where[:, None] % 3)
    with pytest.raises(UsageError, match="no shared sample"):
        data.batch("train", [0])


def test_samples_that_begin_alike_are_compared_in_full():
    def codes(split, where, first):
        rows = np.zeros((len(where), 30), dtype=np.int64)
        rows[:, -1] = 2 * where + (split == "train")
        return rows[:, :first]

    require_disjoint(codes, {"train": 50, "test": 20})


def test_digest_tells_order_and_value():
    rows = np.array([[1, 2], [2, 1], [1, 3], [1, 2]])
    hashes = digest(rows)
    assert len(set(hashes.tolist())) == 3
    assert hashes[0] == hashes[3]


@pytest.mark.parametrize("task", NAMES)
@pytest.mark.parametrize(
    ("split", "indices", "words"),
    [
        ("trian", [0], "did you mean .train."),
        ("train", [-1], "train index: got -1"),
        ("validation", [10**6], "validation index: got 1000000, allowed: 0 to"),
    ],
)
def test_a_bad_request_is_refused(task, split, indices, words):
    with pytest.raises(UsageError, match=words):
        default(task).batch(split, indices)


@pytest.mark.parametrize("task", NAMES)
@pytest.mark.parametrize(
    ("profile", "variant", "words"), [("lit", "base", "'lite'"), ("lite", "bsae", "variant of")]
)
def test_a_bad_name_is_refused(task, profile, variant, words):
    with pytest.raises(UsageError, match=words):
        get_task(task).dataset(profile, variant, 1)


@pytest.mark.parametrize("task", NAMES)
def test_levels_of_a_split_that_is_not_there_are_refused(task):
    with pytest.raises(UsageError, match="split: got 'nowhere'"):
        default(task).levels("nowhere")


def test_more_than_memory_allows_is_refused_before_it_is_allocated(monkeypatch):
    monkeypatch.setattr(checks_module, "_free_memory", lambda: 2**30)
    require_memory(10_000, 1000)
    with pytest.raises(UsageError, match="ask for fewer samples"):
        require_memory(1_000_000, 1000)
    data = default("noisy_gaps")
    monkeypatch.setattr(checks_module, "FREE_ANYWAY", 100)
    monkeypatch.setattr(checks_module, "_free_memory", lambda: 100)
    with pytest.raises(UsageError, match="GiB"):
        data.batch("train", range(10))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_seeds_choose_grammar_and_data(seed):
    from selectivbench.grammar import Grammar

    data = dataset("memorization", "smoke", "amb8", seed)
    assert data.grammar == Grammar.random(seed, ambiguities=8)
    other = dataset("memorization", "smoke", "amb8", seed + 1)
    assert (data.batch("train", [0]).tokens != other.batch("train", [0]).tokens).any()


def test_memorization_shows_each_symbol_once_and_then_a_blank():
    batch = default("memorization").batch("test", range(20))
    assert (batch.tokens[:, 1::2] == BLANK).all()
    assert (batch.tokens[:, ::2] >= 0).all()
    assert (batch.targets[:, ::2] == batch.targets[:, 1::2]).all()


@pytest.mark.parametrize(
    ("variant", "split", "low", "high"),
    [
        ("base", "test", 1, 10),
        ("base", "test-gap10", 10, 10),
        ("long", "test", 1, 14),
        ("long", "test-gap14", 14, 14),
    ],
)
def test_gaps_of_noisy_gaps(variant, split, low, high):
    batch = dataset("noisy_gaps", "lite", variant).batch(split, range(300))
    steps = np.array([np.bincount(row[row >= 0]) for row in batch.element])
    assert steps.min() == 1 + low
    assert steps.max() == 1 + high
    if low < high:  # ends have half weight, as published
        share = np.bincount(steps.ravel())[2:] / steps.size
        inner = 1 / (high - low)
        assert share == pytest.approx([inner / 2, *[inner] * (high - 2), inner / 2], abs=0.02)


@pytest.mark.parametrize(
    ("variant", "near", "far", "elements"), [("long", 20, 28, 12), ("base", 15, 20, 16)]
)
def test_gap_extrapolation_trains_on_the_bytes_of_noisy_gaps(variant, near, far, elements):
    ours, theirs = (dataset(task, "lite", variant) for task in ("gap_extrapolation", "noisy_gaps"))
    for split in ("train", "validation"):
        a, b = ours.batch(split, range(30)), theirs.batch(split, range(30))
        assert (a.tokens == b.tokens).all()
        assert (a.targets == b.targets).all()
        assert (a.noise_seeds == b.noise_seeds).all()
    assert ours.encoding == theirs.encoding
    assert (ours.evaluations, ours.reported) == ((f"test-gap{near}",), (f"test-gap{far}",))
    assert ours.batch(f"test-gap{near}", [0]).tokens.shape == (1, elements * (1 + near))
    assert ours.max_length == elements * (1 + far)


def test_gap_extrapolation_has_the_published_gaps_at_paper_size():
    ours = dataset("gap_extrapolation", "paper", "base")
    assert ours.evaluations == ("test-gap10", "test-gap20", "test-gap50", "test-gap100")
    assert ours.reported == ()
    assert ours.batch("test-gap50", [0]).tokens.shape == (1, 200 * 51)
    assert ours.max_length == 200 * 101


@pytest.mark.parametrize(
    ("scores", "longest"),
    [((0.9, 0.9, 0.9, 0.9), 100), ((0.9, 0.7, 0.9, 0.9), 10), ((0.1, 0.9, 0.9, 0.9), 0)],
)
def test_longest_gap_above_a_threshold(scores, longest):
    names = ("test-gap10", "test-gap20", "test-gap50", "test-gap100")
    assert longest_gap(dict(zip(reversed(names), reversed(scores), strict=True)), 0.8) == longest


@pytest.mark.parametrize(("variant", "probability"), [("base", 0.1), ("dense", 0.3)])
def test_distractors_come_late_and_never_belong(variant, probability):
    data = dataset("distractors", "lite", variant)
    batch = data.batch("test", range(300))
    states = {c: s for s, c in enumerate(data.grammar.class_of.tolist())}
    beginnings = data.grammar.symbol_of[list(data.grammar.starts)]
    found = 0
    for tokens, targets, element in zip(batch.tokens, batch.targets, batch.element, strict=True):
        again = np.flatnonzero(element[1:] == element[:-1]) + 1
        again = again[element[again] != IGNORE]
        found += len(again)
        for t in again:
            assert element[t] >= 10
            state = states[targets[t]]
            assert data.grammar.successor[state, tokens[t]] < 0
            assert state != data.grammar.end or tokens[t] not in beginnings
    assert found / (300 * 30) == pytest.approx(probability, abs=0.02)


@pytest.mark.parametrize("variant", ["gaps", "all"])
def test_next_symbol_gives_exact_odds_of_what_comes(variant):
    data = dataset("next_symbol", "lite", variant)
    where = np.arange(200)
    batch, odds = data.batch("test", where), data.reference("test", where)
    asked = batch.targets != IGNORE
    assert odds.shape == (*batch.tokens.shape, data.n_classes)
    assert odds[asked].sum(axis=1) == pytest.approx(np.ones(asked.sum()), abs=1e-5)
    assert not odds[~asked].any()
    assert (asked == (batch.tokens == BLANK)).all() or variant == "all"
    likelihood = odds[asked][np.arange(asked.sum()), batch.targets[asked]]
    assert likelihood.min() > 0
    assert -np.log(likelihood).mean() == pytest.approx(data.levels().entropy, abs=0.03)
    best = odds[asked].max(axis=1).mean()  # calibrated: right as often as it says
    assert (odds[asked].argmax(axis=1) == batch.targets[asked]).mean() == pytest.approx(
        best, abs=0.02
    )


def test_next_symbol_levels_are_those_of_the_unigram():
    data = dataset("next_symbol", "lite", "all")
    levels, batch = data.levels(), data.batch("test", range(512))
    odds = data.reference("test", range(512)).reshape(-1, data.n_classes).astype(float)
    unigram = np.bincount(
        data.batch("train", range(4000)).targets.ravel(), minlength=data.n_classes
    )
    unigram = unigram / unigram.sum()
    kl = (odds * (np.log(np.maximum(odds, 1e-30)) - np.log(unigram))).sum(axis=1).mean()
    assert batch.targets.min() >= 0
    assert levels.floor == pytest.approx(-kl, abs=0.02)
    assert levels.ceiling == 0.0


def test_the_other_tasks_compare_no_distributions():
    with pytest.raises(NotImplementedError, match="scored by accuracy"):
        default("memorization").reference("test", [0])


def test_mqar_answers_are_bound_in_the_sequence_and_filler_is_no_key():
    data = dataset("mqar", "lite", "base")
    batch, size = data.batch("test", range(100)), data.size
    for tokens, targets in zip(batch.tokens, batch.targets, strict=True):
        head = tokens[: 2 * size.pairs]
        bound = dict(zip(head[::2].tolist(), head[1::2].tolist(), strict=True))
        assert len(bound) == size.pairs
        asked = np.flatnonzero(targets != IGNORE)
        assert sorted(tokens[asked].tolist()) == sorted(bound)
        assert [bound[int(tokens[t])] - size.keys for t in asked] == targets[asked].tolist()
        filler = np.delete(tokens[2 * size.pairs :], asked - 2 * size.pairs)
        assert (filler >= size.keys + size.values).all()


def test_induction_recalls_the_successor_at_every_length():
    data = dataset("induction", "lite", "base")
    assert data.evaluations == ("test-64", "test-128", "test-256", "test-512")
    for split in data.evaluations:
        batch = data.batch(split, range(50))
        assert batch.tokens.shape[1] == int(split.removeprefix("test-"))
        marks = batch.tokens == 16
        assert (marks.sum(axis=1) == 2).all()
        first = marks.argmax(axis=1)
        assert (batch.targets[:, -1] == batch.tokens[np.arange(50), first + 1]).all()


@pytest.mark.parametrize("variant", ["base", "long"])
def test_selective_copy_asks_for_the_symbols_in_order(variant):
    profile = "paper" if variant == "long" else "lite"
    data = dataset("selective_copy", profile, variant)
    batch, size = data.batch("test", range(20)), data.size
    for tokens, targets in zip(batch.tokens, batch.targets, strict=True):
        shown = tokens[: size.steps]
        assert (shown[shown > 0] - 1).tolist() == targets[size.steps :].tolist()
        assert (tokens[size.steps :] == size.symbols + 1).all()


@given(st.integers(1, 12), st.integers(0, 12), st.integers(0, 2**32))
@settings(deadline=None)
def test_distinct_numbers(count, more, seed):
    words = np.random.default_rng(seed).integers(2**64, size=(50, 2 * count), dtype=np.uint64)
    numbers = distinct(words, count + more)
    assert all(len(set(row)) == count for row in numbers.tolist())
    assert numbers.min() >= 0
    assert numbers.max() < count + more


def test_distinct_numbers_are_uniform_in_every_place():
    words = np.random.default_rng(1).integers(2**64, size=(30_000, 6), dtype=np.uint64)
    for place in distinct(words, 5).T:
        assert np.bincount(place) / 30_000 == pytest.approx(np.full(5, 0.2), abs=0.015)


def test_another_process_gives_the_same_bytes():
    code = (
        "from selectivbench.tasks import get_task; from selectivbench.export import golden_hash;"
        "print(golden_hash(get_task('distractors').dataset('smoke', 'base', 1)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == golden_hash(default("distractors"))


def test_memory_is_the_batch_and_little_more():
    """No dense (element x time) mask: the reference's is 20 to 800 MB for a batch."""
    data = dataset("noisy_gaps", "lite", "base")
    data.batch("train", range(2))
    tracemalloc.start()
    batch = data.batch("train", range(1000))
    rows = data.encoding.encode(batch.tokens, batch.noise_seeds)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    kept = rows.nbytes + batch.tokens.nbytes + batch.targets.nbytes + batch.element.nbytes
    assert peak < 1.3 * kept + 2**20
