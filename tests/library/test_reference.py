"""The published samples, bit for bit."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace

import numpy as np
import pytest

from selectivbench.batch import BLANK, PAD
from selectivbench.errors import UsageError
from selectivbench.tasks.reference import SETUPS, reference_batch, reference_noise, setup_of

from .golden import golden_files, load

DIGESTS = {
    ("task1", "train"): "621558f4a47c",
    ("task1", "test"): "621558f4a47c",
    ("task2", "train"): "553a787edde5",
    ("task2", "test"): "0ffeae967ccc",
    ("task3", "train"): "bce19ce9630f",
    ("task3", "test"): "9c25c8eb4d9e",
}


def published_setup(path):
    content = load(path)
    task, _, ambiguities = re.match(r"(task\d)(_amb(\d+))?", content["task"]).groups()
    changed = {"ambiguities": int(ambiguities)} if ambiguities else {}
    return content, replace(setup_of(task), **changed)


@pytest.mark.parametrize("path", golden_files("samples_*"))
@pytest.mark.parametrize("split", ["train", "test"])
def test_published_samples_in_full(path, split):
    content, setup = published_setup(path)
    for sample in content[split]:
        batch = reference_batch(setup, content["seed"], split, [sample["idx"]])
        assert batch.tokens[0].tolist() == sample["token"]
        assert batch.targets[0].tolist() == sample["target"]
        assert batch.element[0].tolist() == sample["element"]
        steps = np.bincount(batch.element[0]) - 1
        assert steps.tolist() == sample["gap_steps_per_element"]
        if "noise_first3rows" in sample:
            noise = reference_noise(setup, content["seed"], split, sample["idx"])
            hot = np.eye(setup.ambiguities + 1, dtype=np.float32)[batch.tokens[0, :3]]
            shown = noise[:3] + hot * (batch.tokens[0, :3, None] >= 0)
            published = np.array(sample["noise_first3rows"])
            close = [np.abs(published - rows).max() < 1e-6 for rows in (noise[:3], shown)]
            assert any(close)


def digest(array):
    return hashlib.blake2b(array.astype("<i4").tobytes(), digest_size=6).hexdigest()


@pytest.mark.parametrize(("which", "expected"), DIGESTS.items())
def test_digest_of_published_samples(which, expected):
    task, split = which
    batch = reference_batch(setup_of(task), 1, split, range(3))
    assert digest(np.stack([batch.tokens, batch.targets, batch.element])) == expected


@pytest.mark.parametrize("task", ["task1", "task2", "task3"])
def test_a_published_sample_is_the_same_whoever_asks(task):
    together = reference_batch(setup_of(task), 2, "train", [5, 0, 3])
    for row, index in enumerate((5, 0, 3)):
        alone = reference_batch(setup_of(task), 2, "train", [index]).tokens[0]
        assert (together.tokens[row, : len(alone)] == alone).all()
        assert (together.tokens[row, len(alone) :] == PAD).all()


def test_published_lengths():
    """Facts: 1222 to 1367 steps in training, median 1300, over 40 samples of seed 3."""
    batch = reference_batch(setup_of("task2"), 3, "train", range(40))
    lengths = (batch.tokens != PAD).sum(axis=1)
    assert (lengths.min(), lengths.max()) == (1222, 1367)
    assert np.median(lengths) == pytest.approx(1300, abs=10)
    gaps = np.concatenate([np.bincount(row[row >= 0]) - 1 for row in batch.element])
    assert np.bincount(gaps).tolist()[1:4] == [445, 853, 908]


def test_published_distractors():
    """Facts: 671 of 8000 elements of 40 samples of seed 3 have one, 209 to 223 steps, median 217;
    measured after the first sample had been looked at once, so one turn of the generator later."""
    batch = reference_batch(setup_of("task3"), 3, "train", range(1, 41))
    lengths = (batch.tokens != PAD).sum(axis=1)
    assert lengths.sum() - 8000 == 671
    assert (lengths.min(), np.median(lengths), lengths.max()) == (209, 217, 223)
    assert not (batch.tokens == BLANK).any()


@pytest.mark.parametrize(("steps", "length"), [(10, 2200), (20, 4200), (50, 10200), (100, 20200)])
def test_published_test_gaps(steps, length):
    setup = replace(setup_of("task4"), test_gap=steps)
    assert reference_batch(setup, 1, "test", [0]).tokens.shape == (1, length)


@pytest.mark.parametrize("index", [0, 2])
def test_noise_is_that_of_torch(index):
    torch = pytest.importorskip("torch")
    setup = replace(SETUPS["task2"], ambiguities=8)
    torch.manual_seed(4)
    for i in range(index + 1):
        steps = reference_batch(setup, 4, "train", [i]).tokens.shape[1]
        noise = torch.rand_like(torch.zeros(steps, 9)) * 0.2
    assert (reference_noise(setup, 4, "train", index) == noise.numpy()).all()


@pytest.mark.parametrize(
    ("task", "split", "indices", "words"),
    [
        ("task9", "train", [0], "published task: got 'task9'"),
        ("task1", "validation", [0], "train or test"),
        ("task1", "train", [-1], "sample index: got -1"),
    ],
)
def test_bad_requests_are_refused(task, split, indices, words):
    with pytest.raises(UsageError, match=words):
        reference_batch(setup_of(task), 1, split, indices)
