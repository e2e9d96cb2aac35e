"""Frozen arrays, and what a model sees of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selectivbench.batch import BLANK, PAD, Batch, Encoding
from selectivbench.errors import UsageError

TOKENS = np.array([[0, 2, BLANK, 1, PAD], [BLANK, 1, PAD, PAD, PAD]], dtype=np.int16)
NO_SEEDS = np.empty(0, dtype=np.uint64)
SEEDS = np.array([7, 8], dtype=np.uint64)


def made(rows: int = 2) -> Batch:
    ints = np.zeros((rows, 3), dtype=np.int32)
    return Batch(ints.astype(np.int16), ints, ints.copy(), NO_SEEDS.copy())


@pytest.mark.parametrize("name", ["tokens", "targets", "element", "noise_seeds"])
def test_arrays_are_frozen(name: str) -> None:
    array = getattr(made(), name)
    with pytest.raises(ValueError, match="read-only"):
        array[...] = 1


@pytest.mark.parametrize(
    ("targets", "element", "seeds"),
    [((2, 4), (2, 3), 0), ((2, 3), (3, 3), 0), ((2, 3), (2, 3), 1), ((2, 3), (2, 3), 3)],
)
def test_shapes_that_do_not_belong_together_are_our_own_mistake(
    targets: tuple[int, int], element: tuple[int, int], seeds: int
) -> None:
    with pytest.raises(AssertionError):
        Batch(
            np.zeros((2, 3), np.int16),
            np.zeros(targets, np.int32),
            np.zeros(element, np.int32),
            np.zeros(seeds, np.uint64),
        )


def test_one_hot() -> None:
    rows = Encoding("one_hot", 3, 3).encode(TOKENS, NO_SEEDS)
    assert rows.dtype == np.float32
    assert rows[0].tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 0]]


def test_token_ids_leave_zero_to_the_blank() -> None:
    rows = Encoding("token_ids", 1, 3).encode(TOKENS, NO_SEEDS)
    assert rows[..., 0].tolist() == [[1, 3, 0, 2, 0], [0, 2, 0, 0, 0]]


def test_dense_rows_are_unit_vectors_of_the_tables_seed() -> None:
    encoding = Encoding("dense", 4, 3, table_seed=5)
    rows = encoding.encode(TOKENS, NO_SEEDS)
    assert np.linalg.norm(rows[0, [0, 1, 3]], axis=1) == pytest.approx([1, 1, 1])
    assert not rows[TOKENS < 0].any()
    assert (rows == Encoding("dense", 4, 3, table_seed=5).encode(TOKENS, NO_SEEDS)).all()
    assert (rows != Encoding("dense", 4, 3, table_seed=6).encode(TOKENS, NO_SEEDS)).any()


@pytest.mark.parametrize(("kind", "width"), [("one_hot", 3), ("token_ids", 1), ("dense", 4)])
def test_noise_is_on_live_steps_only_and_padding_is_exactly_zero(kind: str, width: int) -> None:
    clean = Encoding(kind, width, 3).encode(TOKENS, SEEDS)  # type: ignore[arg-type]
    noisy = Encoding(kind, width, 3, noise=0.5).encode(TOKENS, SEEDS)  # type: ignore[arg-type]
    added = (noisy - clean)[TOKENS != PAD]
    assert ((added > 0) & (added <= 0.5)).all()
    assert not noisy[TOKENS == PAD].any()


def test_noise_belongs_to_a_sequence_and_not_to_its_batch() -> None:
    encoding = Encoding("one_hot", 3, 3, noise=0.5)
    together = encoding.encode(TOKENS, SEEDS)
    assert (together[1:] == encoding.encode(TOKENS[1:], SEEDS[1:])).all()
    assert (together != encoding.encode(TOKENS, SEEDS[::-1])).any()


@given(st.lists(st.integers(BLANK, 3), max_size=6), st.integers(0, 2**64 - 1))
@settings(deadline=None, max_examples=50)
def test_a_longer_padding_changes_nothing_before_it(line: list[int], seed: int) -> None:
    encoding = Encoding("one_hot", 4, 4, noise=1.0)
    seeds = np.array([seed], dtype=np.uint64)
    short, long = (
        encoding.encode(np.array([line + [PAD] * pad], dtype=np.int16), seeds) for pad in (1, 4)
    )
    assert (long[0, : len(line)] == short[0, : len(line)]).all()
    assert not long[0, len(line) :].any()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"kind": "onehot"}, "encoding"),
        ({"kind": None}, "encoding"),
        ({"kind": "dense", "noise": -0.1}, "noise"),
    ],
)
def test_a_bad_encoding_is_refused(arguments: dict[str, object], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        Encoding(n_inputs=3, n_symbols=3, **arguments)  # type: ignore[arg-type]
