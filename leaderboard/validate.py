"""What a record must still satisfy after ``Record.from_json``, because its author may be hostile.

Names become file names and links, figures become positions in a chart and the order of a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from selectivbench.anatomy import Anatomy
from selectivbench.errors import RecordError, UsageError, explain
from selectivbench.machine import used
from selectivbench.record import Record

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,79}")
TASK = re.compile(r"[a-z0-9_]{1,60}-v[0-9]{1,4}")
DIGEST = re.compile(r"[0-9a-f]{8,64}")
CHECK = re.compile(r"[a-z][a-z-]{0,39}")
SHA256 = re.compile(r"[0-9a-f]{64}")

FACET = re.compile(r"[a-z][a-z_-]{0,39}")
BIN = re.compile(r"[A-Za-z0-9 <>=.+-]{1,40}")
MOST_FACETS, MOST_BINS = 16, 64
MOST_FINDINGS = 40
LARGEST = 1e15
"""No time, size or count of a real run comes near; beyond it float64 no longer counts in ones."""
LARGEST_SEED = 1 << 53
LONGEST = 20_000
"""Characters of a cause: a traceback fits, a flood does not."""
SLACK = 1e-3
"""Rounding that a stored score may differ by from its own accuracy, floor and ceiling."""


def check(record: Record) -> None:
    """Raise RecordError with the first reason why this record cannot be shown."""
    if record.custom is not None:
        raise RecordError("a training at sizes of one's own; only cases of a profile are shown.")
    _names(record)
    _mode(record)
    _bounds(record)
    for name in ("budget", "environment", "machine", "probe"):
        for path, leaf in leaves(name, getattr(record, name)):
            check_leaf(path, leaf)
    for name, text in _texts(record):
        check_leaf(name, text)
    _figures(record)


def _names(record: Record) -> None:
    who = record.identity
    for field, pattern, shape in (
        ("entry", NAME, "letters, digits and _ . + -, at most 80"),
        ("source_sha256", SHA256, "64 hex digits"),
        ("task", TASK, "name-vN"),
        ("variant", NAME, "letters, digits and _ . + -"),
        ("profile", NAME, "letters, digits and _ . + -"),
        ("device_class", NAME, "letters, digits and _ . + -"),
        ("budget_digest", DIGEST, "8 to 64 hex digits"),
        ("environment_digest", DIGEST, "8 to 64 hex digits"),
    ):
        value = getattr(who, field)
        if not pattern.fullmatch(value):
            raise RecordError(explain(f"identity.{field}", clip(value), shape))
    if record.entry.id != who.entry:
        raise RecordError(
            explain("entry.id", clip(record.entry.id), f"identity.entry, {who.entry!r}")
        )


def _mode(record: Record) -> None:
    """What is kept apart by its device class was trained that way: its digest is of its budget."""
    try:
        _, mode = used(record.identity.device_class)
    except UsageError as error:
        raise RecordError(str(error)) from error
    said = {name: record.budget.get(name) for name in ("precision", "cuda_graphs")}
    given = {name: value for name, value in said.items() if value is not None}
    want(given == mode.facts, "precision and CUDA graphs of the budget", given, f"{mode.facts}")


def _texts(record: Record) -> Iterator[tuple[str, str]]:
    entry = record.entry
    yield from (
        ("graphs", record.graphs),
        ("cause", record.cause),
        ("metric", record.metric),
        ("isolation", record.isolation),
    )
    yield from (("name", entry.name), ("paper", entry.paper), ("authors", entry.authors))
    yield from (("entry.tags", tag) for tag in (*entry.tags, *entry.expected_fail))
    yield from (("evaluations", part.split) for part in record.evaluations)
    for anatomy in _anatomies(record):
        yield from (
            ("facets", text) for facet in anatomy.facets for text in (facet.by, *facet.bins)
        )
        yield from (("mistakes", text) for m in anatomy.mistakes for text in (m.asked, m.answered))
    yield from (("validity", finding.text) for finding in record.validity)


def check_leaf(path: str, leaf: Any) -> None:
    """A number has a size that a chart can hold, a text has a length and is text."""
    if isinstance(leaf, int | float):
        # an int compares exactly, so a number of 400 digits never becomes a float here
        if not -LARGEST <= leaf <= LARGEST:
            raise RecordError(explain(path, "a huge number", f"at most {LARGEST:g} in size"))
    elif isinstance(leaf, str):
        if len(leaf) > LONGEST:
            raise RecordError(explain(path, f"{len(leaf)} characters", f"at most {LONGEST}"))
        if not leaf.isascii() and any(0xD800 <= ord(c) < 0xE000 for c in leaf):
            raise RecordError(explain(path, "half a surrogate pair", "text that UTF-8 can hold"))


def leaves(where: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Every key and every value of nested data that is no container, with the way to it."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield f"{where} key", key
            yield from leaves(f"{where}.{clip(key)}", item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaves(where, item)
    else:
        yield where, value


def _bounds(record: Record) -> None:
    """The sizes that ``Record.from_json`` leaves open; the types are right already."""
    for tag in (*record.entry.tags, *record.entry.expected_fail):
        want(len(tag) <= 80, "entry.tags", tag, "texts of at most 80")
    want(
        len(record.validity) <= MOST_FINDINGS,
        "validity",
        len(record.validity),
        f"at most {MOST_FINDINGS} findings",
    )
    for finding in record.validity:
        want(bool(CHECK.fullmatch(finding.check)), "check", finding.check, "small letters and -")
    seed = record.identity.seed
    want(0 <= seed < LARGEST_SEED, "seed", seed, "0 to 2**53, which JSON keeps exact")
    for name in ("parameters", "state_size", "peak_memory", "stopped_at", "pieces"):
        value = getattr(record, name)
        want(value is None or 0 <= value <= LARGEST, name, value, f"0 to {LARGEST:g}, or null")
    busy = record.utilisation
    want(busy is None or 0 <= busy <= LARGEST, "utilisation", busy, "a share, 0 or more, or null")
    for phase, spent in record.seconds.items():
        want(0 <= spent <= LARGEST, f"seconds.{clip(phase)}", spent, f"0 to {LARGEST:g}")
    for part in record.evaluations:
        figures = (part.accuracy, part.floor, part.ceiling)
        want(all(abs(v) <= LARGEST for v in figures), "evaluations", part, "numbers of some size")
    for point in record.curve:
        good = 0 <= point.step <= LARGEST and abs(point.loss) <= LARGEST
        good = good and (point.accuracy is None or abs(point.accuracy) <= LARGEST)
        want(good, "curve", point, "a step from 0 on, and numbers of some size")
    for anatomy in _anatomies(record):
        _dissected(anatomy)
    check_moment(record.created)


def _anatomies(record: Record) -> Iterator[Anatomy]:
    yield from (part.anatomy for part in record.evaluations if part.anatomy is not None)


def _dissected(anatomy: Anatomy) -> None:
    """Few enough facets and mistakes for a page, and counts that can be counts."""
    sizes = len(anatomy.facets), len(anatomy.mistakes)
    want(max(sizes) <= MOST_FACETS, "anatomy", sizes, f"{MOST_FACETS} facets and mistakes")
    want(0 <= anatomy.rivals <= anatomy.wrong <= LARGEST, "anatomy", anatomy.wrong, "a count")
    want(all(0 < m.count <= LARGEST for m in anatomy.mistakes), "mistakes", anatomy, "counts")
    for facet in anatomy.facets:
        rows = list(zip(facet.counts, facet.rights, facet.best, strict=False))
        lengths = {len(row) for row in (facet.bins, facet.counts, facet.rights, facet.best)}
        good = len(lengths) == 1 and len(rows) <= MOST_BINS and len(set(facet.bins)) == len(rows)
        good = good and all(max(r, b) <= n <= LARGEST and min(r, b) >= 0 for n, r, b in rows)
        want(bool(FACET.fullmatch(facet.by)), "facet", facet.by, "small letters, _ and -")
        good = good and all(BIN.fullmatch(name) for name in facet.bins)
        want(good, f"facet {clip(facet.by)}", facet, f"at most {MOST_BINS} bins, counts of each")


def want(good: bool, name: str, got: object, allowed: str) -> None:
    """RecordError unless it is good."""
    if not good:
        raise RecordError(explain(name, clip(got), allowed))


def _figures(record: Record) -> None:
    if record.metric == "accuracy":
        for name in ("accuracy", "floor", "ceiling"):
            value = getattr(record, name)
            good = value is None or 0 <= value <= 1
            want(good, name, value, "0 to 1 where the metric is accuracy")
    if record.score is None:
        return
    expected = _scores(record)
    good = any(abs(record.score - score) <= SLACK for score in expected)
    want(good, "score", record.score, f"what accuracy, floor and ceiling give, {expected}")


def _scores(record: Record) -> list[float]:
    """The two ways to pool several splits: score of the means, mean of the scores."""
    scored = (e for e in record.evaluations if e.scored)
    splits = [_ratio(e.accuracy, e.floor, e.ceiling) for e in scored]
    known = [value for value in splits if value is not None]
    means = [sum(known) / len(known)] if known and len(known) == len(splits) else []
    own = _ratio(record.accuracy, record.floor, record.ceiling)
    return means if own is None else [own, *means]


def _ratio(accuracy: float | None, floor: float | None, ceiling: float | None) -> float | None:
    if accuracy is None or floor is None or ceiling is None or ceiling <= floor:
        return None
    return (accuracy - floor) / (ceiling - floor)


def check_moment(text: str) -> None:
    """RecordError unless it is a moment, or empty."""
    try:
        good = text == "" or bool(datetime.fromisoformat(text))
    except ValueError:
        good = False
    want(good, "created", text, "an ISO 8601 moment such as 2026-01-31T12:00:00+00:00")


def clip(value: object, size: int = 80) -> str:
    """At most ``size`` characters of anything, so that a message cannot be flooded."""
    big = isinstance(value, int) and abs(value) > LARGEST  # str() of it would raise or flood
    text = "a huge number" if big else str(value)
    return text if len(text) <= size else text[: size - 1] + "…"
