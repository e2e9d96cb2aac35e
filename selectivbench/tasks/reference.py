"""The published samples, bit for bit: what the reference implementation's dataset returns.

Sample ``i`` of a seed as ``dataset[i]`` gives it when samples are asked for in order 0, 1, 2, … in
the main process without a file (commit 54609fb); train and test overlap there, as published.
Unreachable states stay classes, and distractors after the end symbol are drawn from all symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selectivbench.batch import BLANK, IGNORE, PAD, Batch
from selectivbench.compiled import kernels
from selectivbench.errors import UsageError, explain, near
from selectivbench.oracle import Distractors
from selectivbench.tasks.checks import require_memory
from selectivbench.tasks.elements import oracle_of
from selectivbench.walks import LONGEST

AFTER_END = Distractors(after_end=True)


@dataclass(frozen=True)
class Setup:
    """One of the published tasks.

    ambiguities: vocabulary and depth follow it. train_gap: least and most gap steps in training;
    the test takes the most, or ``test_gap``. noise: upper end. From element ``gap_start`` on a gap
    comes with ``gap_chance``; with ``distractors`` it shows symbols instead of blanks.
    """

    ambiguities: int = 40
    train_gap: tuple[int, int] = (1, 1)
    test_gap: int | None = None
    noise: float = 0.0
    gap_start: int = 0
    gap_chance: float = 1.0
    distractors: bool = False


SETUPS = {
    "task1": Setup(),
    "task2": Setup(train_gap=(1, 10), noise=0.2),
    "task3": Setup(gap_start=50, gap_chance=0.1, distractors=True),
    "task4": Setup(train_gap=(1, 10), noise=0.2),
}


def setup_of(task: str) -> Setup:
    """The setup of a published task; ``dataclasses.replace`` changes its ambiguity or test gap."""
    if task not in SETUPS:
        raise UsageError(explain("published task", task, near(task, SETUPS)))
    return SETUPS[task]


def reference_batch(setup: Setup, seed: int, split: str, indices: Sequence[int]) -> Batch:
    """Tokens, targets (published state ids) and element ids, without noise; see ``reference_noise``.

    Raises UsageError for a split other than train and test, or a negative index.
    """
    where = _checked(split, indices)
    low, high = _gap_range(setup, split)
    require_memory(len(where), LONGEST * (1 + high))
    walker = oracle_of(seed, setup.ambiguities, LONGEST, AFTER_END).walker
    states = walker.reference(seed, where)
    foreign = AFTER_END.foreign(walker)
    gaps = np.zeros(states.shape, dtype=np.int64)
    fillers = np.full(states.shape, BLANK, dtype=np.int16)
    for row, index in enumerate(where.tolist()):
        at = _gap_places(setup, seed, index)
        legacy = np.random.RandomState(seed * index & 0xFFFFFFFF)  # published: the legacy generator
        gaps[row, at] = high
        if setup.distractors:
            length = (low, high) if split == "train" else None
            fillers[row, at] = _distractors(legacy, length, foreign[states[row, at]])
        elif split == "train":
            gaps[row, at] = _lengths(legacy, low, high, len(at))
    grammar = walker.grammar
    symbols, classes = grammar.symbol_of[states], grammar.state_id[states]
    laid = kernels().lay_out(symbols, classes, gaps, fillers, PAD, IGNORE)
    tokens, targets, element = laid
    return Batch(tokens, targets, element, np.empty(0, dtype=np.uint64))


def reference_noise(setup: Setup, seed: int, split: str, index: int) -> NDArray[np.float32]:
    """(T, ambiguities + 1) float32, what is added to the one-hot rows of a sample.

    One number for each entry from the Mersenne twister that ``torch.manual_seed(seed)`` sets, after
    those of the samples before it: 24 bits of each 32-bit word, as torch fills a float tensor.
    """
    before = reference_batch(setup, seed, split, range(index + 1)).tokens
    lengths = (before != PAD).sum(axis=1)
    columns = setup.ambiguities + 1
    twister: Any = np.random.MT19937()  # torch seeds it as NumPy's legacy generator does
    twister.state = np.random.RandomState(seed).get_state(legacy=False)
    words = twister.random_raw(int(lengths.sum()) * columns)[-int(lengths[-1]) * columns :]
    unit = (words & 0xFFFFFF).astype(np.float32) * np.float32(2.0**-24)
    return np.asarray(unit.reshape(-1, columns) * np.float32(setup.noise), dtype=np.float32)


def _checked(split: str, indices: Sequence[int]) -> NDArray[np.int64]:
    if split not in ("train", "test"):
        raise UsageError(explain("published split", split, "train or test"))
    where = np.asarray(indices, dtype=np.int64)
    if where.size and where.min() < 0:
        raise UsageError(explain("sample index", int(where.min()), "0 or more"))
    return where


def _gap_range(setup: Setup, split: str) -> tuple[int, int]:
    if split == "train":
        return setup.train_gap
    fixed = setup.test_gap or setup.train_gap[1]
    return fixed, fixed


def _gap_places(setup: Setup, seed: int, index: int) -> NDArray[np.int64]:
    """Which elements have a gap: one generator of the dataset serves all samples in turn."""
    count = LONGEST - setup.gap_start
    bits = np.random.PCG64(seed)
    bits.advance(count * index)
    coin = np.random.Generator(bits).random(count)
    return setup.gap_start + np.flatnonzero(coin <= setup.gap_chance)


def _lengths(legacy: np.random.RandomState, low: int, high: int, count: int) -> NDArray[np.int64]:
    """Gap steps: tenths of a second, rounded from a uniform number, so the ends have half weight."""
    seconds = legacy.uniform(low / 10, high / 10, size=count)
    return np.rint(np.round(seconds, 1) * 10).astype(np.int64)


def _distractors(
    legacy: np.random.RandomState, gap: tuple[int, int] | None, choices: NDArray[np.bool_]
) -> list[int]:
    """One symbol for each row of choices; in training each draws a length first, as published."""
    tokens = []
    for row in choices:
        if gap is not None:
            _lengths(legacy, *gap, count=1)
        tokens.append(int(legacy.choice(np.flatnonzero(row))))
    return tokens
