"""Is a result valid? Checks that know a model only by what it predicts, its state and its source.

Each gives a ``Finding`` with its numbers; none looks into the submission's process.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from selectivbench.batch import BLANK, IGNORE, PAD, Batch
from selectivbench.errors import ProtocolError
from selectivbench.record import Finding
from selectivbench.sandbox.controller import Child
from selectivbench.sandbox.states import State
from selectivbench.similarity import similar

Logits = NDArray[np.float32]
Predict = Callable[[Batch], Logits]

TOLERANCE = 1e-4
"""Largest difference of two logits that should be equal, relative to the largest logit or 1: kernels
that work in chunks add the same float32 numbers in another order."""
HIDDEN_SHARE, HIDDEN_SPARE = 1.5, 4_096
"""A state may hold so many numbers for each declared parameter, and so many besides: buffers."""
LARGEST_COMPRESSED = 24 * 1024
"""Bytes of a compressed source file; the largest honest one of ours takes 2 KiB."""
STANDARD_ERRORS = 4.0
"""How far above the best constant shuffled labels may come by luck."""
MOST_NAMED = 3
"""Similar sources that a finding names."""


def causality(predict: Predict, batch: Batch, cuts: Iterable[int] | None = None) -> Finding:
    """Changing every step from a cut on changes no logit before it.

    cuts: steps, by default some spread evenly and some at the edges of gaps.
    """
    before = predict(batch)
    worst, where = 0.0, 0
    for cut in sorted(set(cut_points(batch.tokens) if cuts is None else cuts)):
        after = predict(changed_from(batch, cut))
        difference = _apart(before[:, :cut], after[:, :cut])
        if difference > worst:
            worst, where = difference, cut
    text = f"largest change before a cut {worst:.2g} (at step {where}), allowed: {TOLERANCE:g}"
    return Finding("causality", worst <= TOLERANCE, text)


def batch_independence(predict: Predict, batch: Batch) -> Finding:
    """Permuting or splitting a batch changes no sequence's logits."""
    whole = predict(batch)
    order = np.random.default_rng(0).permutation(len(batch.tokens))
    half = len(batch.tokens) // 2
    rows = np.arange(len(batch.tokens))
    permuted = _apart(whole[order], predict(taken(batch, order)))
    parts = [predict(taken(batch, part)) for part in (rows[:half], rows[half:])]
    split = _apart(whole, np.concatenate(parts))
    text = f"permuted {permuted:.2g}, split {split:.2g}, allowed: {TOLERANCE:g}"
    return Finding("batch-independence", max(permuted, split) <= TOLERANCE, text)


def determinism(first: Logits, second: Logits, tolerance: float = 0.0) -> Finding:
    """Two trainings from one seed give the same logits; exactly so on a CPU."""
    difference = _apart(first, second)
    text = f"largest difference of two trainings {difference:.2g}, allowed: {tolerance:g}"
    return Finding("determinism", difference <= tolerance, text)


def shuffled_labels(accuracy: float, constant: float, elements: int) -> Finding:
    """After training on shuffled labels nothing beats the best constant predictor, bar luck.

    elements: how many the accuracy was taken over.
    """
    luck = STANDARD_ERRORS * float(np.sqrt(constant * (1 - constant) / elements))
    text = f"accuracy {accuracy:.4f} after shuffled labels, allowed: {constant + luck:.4f}"
    return Finding("shuffled-labels", accuracy <= constant + luck, text)


def hidden_numbers(parameters: int, saved: int) -> Finding:
    """The trained state holds about as many numbers as parameters were counted."""
    most = int(parameters * HIDDEN_SHARE) + HIDDEN_SPARE
    text = f"the trained state holds {saved} numbers for {parameters} parameters, allowed: {most}"
    return Finding("hidden-numbers", saved <= most, text)


def embedded_weights(source: str) -> Finding:
    """A file that does not compress to a few kilobytes carries more than a layer."""
    size = len(zlib.compress(source.encode(), 9))
    text = f"{size} bytes compressed, allowed: {LARGEST_COMPRESSED}"
    return Finding("embedded-weights", size <= LARGEST_COMPRESSED, text)


def state_bound(state_size: int | None, d_model: int, max_length: int) -> Finding:
    """A declared state is no larger than keeping every key and value would be."""
    most = 2 * d_model * max_length
    if state_size is None:  # an optional function: nothing is declared, so nothing is shown
        return Finding("state-bound", True, f"no state_size(spec) is declared, allowed: {most}")
    text = f"{state_size} floats for each layer and sequence, allowed: {most}"
    return Finding("state-bound", state_size <= most, text)


def similarity(source: str, others: Mapping[str, str]) -> Finding:
    """Which other sources are much the same in structure: reported, and never a failure by itself."""
    found = similar(source, others)
    names = ", ".join(f"{name} {ratio:.2f}" for name, ratio in found[:MOST_NAMED])
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    text = f"much the same in structure as {names}{more}" if found else "like no other"
    return Finding("similarity", True, f"{text}, of {len(others)} compared")


def trained_state(child: Child) -> State:
    """The state of a trained child; ProtocolError (status invalid) where it hides numbers."""
    state = child.state()
    check_size(state, child.built.parameters)
    return state


def check_size(state: State, parameters: int) -> None:
    """ProtocolError (status invalid) where a state holds more than a model of that size has."""
    finding = hidden_numbers(parameters, state.numbers)
    if not finding.ok:
        raise ProtocolError(f"{finding.check}: {finding.text}.")


def cut_points(tokens: NDArray[np.int16]) -> set[int]:
    """Steps to cut at: four spread evenly, and both edges of the first gaps of the first rows."""
    length = tokens.shape[1]
    spread = {length * part // 5 for part in range(1, 5)}
    blank = tokens[:2] == BLANK
    edges = np.flatnonzero((blank[:, 1:] != blank[:, :-1]).any(axis=0)) + 1
    return {int(cut) for cut in (*spread, *edges[:4]) if 0 < cut < length}


def changed_from(batch: Batch, cut: int) -> Batch:
    """With every step from ``cut`` on replaced by another token that the batch knows."""
    known = np.unique(batch.tokens[batch.tokens != PAD])
    tokens = batch.tokens.copy()
    late = tokens[:, cut:]
    following = known[(np.searchsorted(known, late) + 1) % len(known)]
    tokens[:, cut:] = np.where(late == PAD, PAD, following)
    return replace(batch, tokens=tokens)


def taken(batch: Batch, rows: NDArray[np.int64]) -> Batch:
    """Some sequences of a batch, in an order."""
    seeds = batch.noise_seeds[rows] if len(batch.noise_seeds) else batch.noise_seeds
    return Batch(batch.tokens[rows], batch.targets[rows], batch.element[rows], seeds)


def with_shuffled_labels(batch: Batch, seed: int) -> Batch:
    """The same inputs, with the batch's targets dealt out again at random."""
    targets = batch.targets.copy()
    asked = targets != IGNORE
    targets[asked] = np.random.default_rng(seed).permutation(targets[asked])
    return replace(batch, targets=targets)


def _apart(first: Logits, second: Logits) -> float:
    """Largest difference, relative to the largest logit or 1; infinite where one is no number."""
    if not first.size:
        return 0.0
    scale = max(1.0, float(np.abs(first).max()))
    difference = float(np.abs(first.astype(np.float64) - second).max()) / scale
    return difference if np.isfinite(difference) else float("inf")
