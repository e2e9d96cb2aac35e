"""Data for other programs and for people: ``selectivbench data export | show | info``.

Every function takes names as a person gives them and raises UsageError for one that is unknown.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selectivbench.batch import PAD, Batch
from selectivbench.errors import UsageError, explain, near
from selectivbench.grammar import Grammar
from selectivbench.tasks import Dataset, Task, get_task
from selectivbench.tasks.checks import require_memory
from selectivbench.tasks.drawing import cells, draw

FORMATS = ("npz", "parquet")
PINNED = 64
"""Samples of each split, from the first on, that the golden hash covers."""


def dataset_of(task: str, profile: str, variant: str | None = None, seed: int = 1) -> Dataset:
    """The dataset of names; without a variant, the profile's first."""
    found = get_task(task)
    if seed < 0:
        raise UsageError(explain("seed", seed, "0 or more"))
    return found.dataset(profile, variant or _default(found, profile), seed)


def _default(task: Task, profile: str) -> str:
    if profile not in task.variants:
        raise UsageError(explain("profile", profile, near(profile, task.variants)))
    return task.variants[profile][0]


def export(
    task: str,
    profile: str,
    variant: str | None,
    seed: int,
    split: str,
    out: str | Path,
    format: str = "npz",
    count: int | None = None,
) -> Path:
    """Write the first ``count`` samples of a split (all without it) and give the path.

    ``npz``: arrays tokens, targets, element, lengths, noise_seeds. ``parquet``: a row for each
    sample with lists that end where the sample does (needs pyarrow). Encodings are not applied:
    ``Encoding.encode`` makes them from tokens and noise seeds.
    """
    if format not in FORMATS:
        raise UsageError(explain("format", format, near(format, FORMATS)))
    data = dataset_of(task, profile, variant, seed)
    number = data.sizes.get(split, 0) if count is None else count
    if number < 0:
        raise UsageError(explain("count", number, "0 or more"))
    require_memory(number, data.max_length)
    batch = data.batch(split, np.arange(number))
    path = Path(out)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        (_write_npz if format == "npz" else _write_parquet)(path, batch)
    except OSError as error:
        raise UsageError(
            explain("file", f"{path} ({error.strerror})", "a writable place")
        ) from error
    return path


def _lengths(batch: Batch) -> NDArray[np.int64]:
    """(B,) steps of each sample before its padding."""
    return np.asarray((batch.tokens != PAD).sum(axis=1), dtype=np.int64)


def _write_npz(path: Path, batch: Batch) -> None:
    with path.open("wb") as file:  # np.savez would append .npz to another name
        np.savez_compressed(file, lengths=_lengths(batch), **vars(batch))


def _write_parquet(path: Path, batch: Batch) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise UsageError(
            explain("format", "parquet", "npz, or parquet with pyarrow", "pip install pyarrow")
        ) from None
    ends = np.concatenate([[0], np.cumsum(_lengths(batch))]).astype(np.int32)
    live = batch.tokens != PAD
    columns = {
        name: pa.ListArray.from_arrays(ends, getattr(batch, name)[live])
        for name in ("tokens", "targets", "element")
    }
    if len(batch.noise_seeds):
        columns["noise_seed"] = pa.array(batch.noise_seeds)
    pq.write_table(pa.table(columns), path)


def show(
    task: str,
    profile: str,
    variant: str | None = None,
    seed: int = 1,
    split: str = "test",
    index: int = 0,
    steps: int = 40,
) -> str:
    """The first steps of one sample as three lines of text; ``.`` blank, ``(X)`` distractor."""
    data = dataset_of(task, profile, variant, seed)
    return draw(data, _scored(data, split), index, steps)


def _scored(data: Dataset, split: str) -> str:
    """``test`` means the first evaluation where no split has that name."""
    return data.evaluations[0] if split == "test" and split not in data.sizes else split


CELL, HIGH = 34, 26


def show_svg(
    task: str,
    profile: str,
    variant: str | None = None,
    seed: int = 1,
    split: str = "test",
    index: int = 0,
    steps: int = 40,
) -> str:
    """The same sample as a picture: symbols boxed, distractors dashed, blanks empty, the target
    below in the colour of its element. Text is escaped and nothing is loaded.
    """
    data = dataset_of(task, profile, variant, seed)
    drawn = cells(data, _scored(data, split), index)[:steps]
    parts = [_svg_step(column, *cell) for column, cell in enumerate(drawn)]
    title = escape(f"{get_task(task).id}, {profile}, seed {seed}, {split} sample {index}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {CELL * len(drawn)} {3 * HIGH}" '
        f'role="img"><title>{title}</title><style>text{{font:12px monospace;text-anchor:middle}}'
        f"</style>{''.join(parts)}</svg>"
    )


def _svg_step(column: int, element: str, step: str, target: str) -> str:
    left, middle = CELL * column, CELL * column + CELL // 2
    shade = "none" if element == "-" else f"hsl({int(element) * 47 % 360} 60% 88%)"
    dash = ' stroke-dasharray="3 2"' if step.startswith("(") else ""
    line = "#bbb" if step == "." else "#333"
    return (
        f'<rect x="{left + 1}" y="2" width="{CELL - 2}" height="{HIGH}" fill="none" '
        f'stroke="{line}"{dash}/>'
        f'<rect x="{left}" y="{HIGH + 8}" width="{CELL}" height="{HIGH}" fill="{shade}"/>'
        f'<text x="{middle}" y="{HIGH - 6}">{escape("" if step == "." else step)}</text>'
        f'<text x="{middle}" y="{2 * HIGH}">{escape("" if target == "-" else target)}</text>'
    )


def info(task: str, profile: str, variant: str | None = None, seed: int = 1) -> dict[str, Any]:
    """Plain numbers about a dataset: classes, lengths, splits, levels of each evaluation, grammar,
    and the golden hash of its bytes.
    """
    data = dataset_of(task, profile, variant, seed)
    lengths = _lengths(data.batch("train", np.arange(min(PINNED, data.sizes["train"]))))
    facts: dict[str, Any] = {
        "task": get_task(task).id,
        "profile": profile,
        "variant": variant or _default(get_task(task), profile),
        "seed": seed,
        "classes": data.n_classes,
        "inputs": asdict(data.encoding),
        "steps": {"longest": data.max_length, "mean of training": float(lengths.mean())},
        "samples": dict(data.sizes),
        "metric": data.metric,
        "levels": {
            split: asdict(data.levels(split)) for split in (*data.evaluations, *data.reported)
        },
        "hash": golden_hash(data),
    }
    grammar = getattr(data, "grammar", None)
    if isinstance(grammar, Grammar):
        facts["grammar"] = _grammar_facts(grammar)
    return facts


def _grammar_facts(grammar: Grammar) -> dict[str, Any]:
    return {
        "states": grammar.n_states,
        "unreachable": [
            s for s, seen in zip(grammar.states, grammar.reachable, strict=True) if not seen
        ],
        "symbols": grammar.n_symbols,
        "transitions": grammar.n_transitions,
        "starts": [grammar.states[i] for i in grammar.starts],
        "topological entropy (nats)": grammar.topological_entropy,
        "digest": grammar.digest,
    }


def golden_hash(data: Dataset) -> str:
    """Sixteen hexadecimal digits over the first samples of every split, their noise and encoding.

    A byte that changes here calls for a new version of the task.
    """
    hasher = hashlib.blake2b(repr(asdict(data.encoding)).encode(), digest_size=8)
    for split, size in sorted(data.sizes.items()):
        batch = data.batch(split, np.arange(min(PINNED, size)))
        hasher.update(f"{split} {size} {data.n_classes} {data.max_length}".encode())
        for name in ("tokens", "targets", "element", "noise_seeds"):
            array = getattr(batch, name)
            hasher.update(f"{name} {array.shape}".encode())
            hasher.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
        few = slice(0, 2)
        rows = data.encoding.encode(batch.tokens[few], batch.noise_seeds[few])
        hasher.update(rows.astype("<f4").tobytes())
        if data.metric == "negative_kl":
            odds = data.reference(split, np.arange(2))
            hasher.update(np.round(odds, 4).astype("<f4").tobytes())
    return hasher.hexdigest()
