"""Which elements a model gets wrong: hits sorted by what an element asks of a memory.

A task describes the elements of a split (``Described``), the answers are counted (``dissect``), and
counts of seeds and splits add up (``merged``). ``diagnose`` makes one sentence of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

LISTED = 6
"""Mistakes that an anatomy names."""
LEAST = 30
"""Elements that either side of a cut must have, of those that the ceiling's predictor names."""
CLEAR, FAILING = 0.1, 0.5
"""A difference of shares that is worth a sentence; a share below which a side fails."""


@dataclass(frozen=True)
class Facet:
    """Elements of one kind of property, by bin: how many, how many rightly named by the model
    (``rights``) and by the predictor that sets the ceiling (``best``)."""

    by: str
    bins: tuple[str, ...]
    counts: tuple[int, ...]
    rights: tuple[int, ...]
    best: tuple[int, ...]


@dataclass(frozen=True)
class Mistake:
    """A class that was asked, what was answered for it, and how often."""

    asked: str
    answered: str
    count: int


@dataclass(frozen=True)
class Anatomy:
    """Where one evaluation was right and wrong.

    rivals: wrong answers that are near: another state with the same symbol, another symbol of the
    same sample. mistakes: the most frequent ones.
    """

    facets: tuple[Facet, ...]
    wrong: int
    rivals: int
    mistakes: tuple[Mistake, ...] = ()


@dataclass(frozen=True)
class Axis:
    """How a facet is spoken of: its title, and where a cut after bin ``{n}`` puts the worse side.

    low, high: the worse side is the one up to the cut, or the one beyond it. first: up to the very
    first bin, where that has words of its own.
    """

    title: str
    low: str
    high: str
    first: str = ""


AXES: Mapping[str, Axis] = MappingProxyType(
    {
        "memory": Axis(
            "symbols of memory needed",
            "up to {n} symbol{s} of memory",
            "beyond {n} symbol{s} of memory",
        ),
        "known": Axis(
            "elements since a plain state",
            "within {n} element{s} of a plain state",
            "more than {n} element{s} after a plain state",
        ),
        "gap": Axis("gap before the element", "after gaps of up to {n}", "after gaps beyond {n}"),
        "distractor": Axis(
            "elements since a distractor",
            "up to {n} element{s} after a distractor",
            "more than {n} element{s} after a distractor",
            first="at a distractor",
        ),
        "place": Axis("place in the answer", "up to answer {n}", "after answer {n}"),
        "distance": Axis("steps to look back", "within {n} steps", "beyond {n} steps"),
    }
)


@dataclass(frozen=True)
class Cut:
    """A facet in two: the share right of what can be known, on its worse and on its better side."""

    where: str
    worse: float
    better: float
    gain: float
    """Variance between the sides, in elements: how much of the errors the cut explains."""

    @property
    def failing(self) -> bool:
        return self.worse < FAILING <= self.better


@dataclass(frozen=True, eq=False)
class Property:
    """place (E,): the bin that each of E elements falls into, or -1 for none."""

    by: str
    bins: tuple[str, ...]
    place: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Described:
    """The scored elements of some samples, in the order of ``metrics.element_guesses``.

    asked (E,): class ids. best (E,): whether the predictor that sets the ceiling names it.
    rivals (E, R): class ids that are nearly right; -1 for none.
    """

    asked: NDArray[np.int64]
    best: NDArray[np.bool_]
    rivals: NDArray[np.int64]
    properties: tuple[Property, ...]


def up_to(by: str, values: NDArray[np.integer], most: int, first: int = 0) -> Property:
    """A bin for each number from ``first`` to ``most``, and one beyond; below ``first``: none.

    >>> up_to("memory", np.array([1, 2, 7]), most=2, first=1)
    Property(by='memory', bins=('1', '2', '3+'), place=array([0, 1, 2]))
    """
    bins = (*map(str, range(first, most + 1)), f"{most + 1}+")
    place = np.where(values < first, -1, np.minimum(values, most + 1) - first)
    return Property(by, bins, place.ravel().astype(np.int64))


def doubling(by: str, values: NDArray[np.integer], first: int = 8) -> Property:
    """Bins whose ends double: up to ``first``, up to twice that, and so on; below 1: none.

    >>> doubling("distance", np.array([1, 9, 33])).bins
    ('1-8', '9-16', '17-32', '33-64')
    """
    place = np.ceil(np.log2(np.maximum(values, 1) / first)).clip(0).astype(np.int64)
    place = np.where(values < 1, -1, place).ravel()
    ends = [first << k for k in range(int(place.max(initial=0)) + 1)]
    bins = [f"{low + 1}-{high}" for low, high in zip([0, *ends], ends, strict=False)]
    return Property(by, tuple(bins), place)


def dissect(
    described: Described, guesses: NDArray[np.integer], class_names: Sequence[str]
) -> Anatomy:
    """Count the answers (E,), class ids, to the elements described."""
    assert guesses.shape == described.asked.shape
    hits = guesses == described.asked
    near = (described.rivals == guesses[:, None]).any(axis=1) & ~hits
    facets = tuple(_counted(p, hits, described.best) for p in described.properties)
    pairs = zip(described.asked[~hits].tolist(), guesses[~hits].tolist(), strict=True)
    found = Counter((class_names[a], class_names[b]) for a, b in pairs)
    return Anatomy(facets, int((~hits).sum()), int(near.sum()), _listed(found))


def _counted(p: Property, hits: NDArray[np.bool_], best: NDArray[np.bool_]) -> Facet:
    def count(which: NDArray[np.bool_]) -> tuple[int, ...]:
        return tuple(np.bincount(p.place[which & (p.place >= 0)], minlength=len(p.bins)).tolist())

    counts, rights, named = count(np.ones_like(hits)), count(hits), count(best)
    kept = [i for i, n in enumerate(counts) if n]

    def of(numbers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(numbers[i] for i in kept)

    return Facet(p.by, tuple(p.bins[i] for i in kept), of(counts), of(rights), of(named))


def merged(parts: Iterable[Anatomy]) -> Anatomy:
    """The sum of several: of seeds, or of the splits of a task."""
    known = list(parts)
    names = dict.fromkeys(facet.by for part in known for facet in part.facets)
    pairs: Counter[tuple[str, str]] = Counter()
    for part in known:
        pairs.update({(m.asked, m.answered): m.count for m in part.mistakes})
    return Anatomy(
        tuple(_sum([f for part in known for f in part.facets if f.by == by]) for by in names),
        sum(part.wrong for part in known),
        sum(part.rivals for part in known),
        _listed(pairs),
    )


def _sum(facets: Sequence[Facet]) -> Facet:
    total: dict[str, NDArray[np.int64]] = {}
    for facet in facets:
        rows = zip(facet.counts, facet.rights, facet.best, strict=True)
        for name, row in zip(facet.bins, rows, strict=True):
            total[name] = total.get(name, np.zeros(3, dtype=np.int64)) + np.array(row)
    bins = sorted(total, key=_order)
    counts, rights, best = (tuple(int(total[b][i]) for b in bins) for i in range(3))
    return Facet(facets[0].by, tuple(bins), counts, rights, best)


def diagnose(anatomy: Anatomy) -> str:
    """Where a model is wrong, in a sentence; empty where its errors keep to no side.

    Each facet is cut between two bins, as in a regression tree (Breiman et al. 1984). Both sides
    need ``LEAST`` elements that can be known (the ceiling's predictor names them) and a difference of
    ``CLEAR`` in the share that the model names. The facet with the cut that explains most of the
    variance is told; of its cuts, those with one side below ``FAILING`` and the other above first.
    """
    cuts = [found for facet in anatomy.facets if (found := _cuts(facet))]
    if not cuts:
        return ""
    told = max(cuts, key=lambda found: max(cut.gain for cut in found))
    cut = max(told, key=lambda cut: (cut.failing, cut.gain))
    verb = "fails" if cut.worse < FAILING else "is weakest"
    shares = f"{cut.worse:.2f} of what can be known is named there, {cut.better:.2f} elsewhere"
    return f"{verb} {cut.where}: {shares}"


def _cuts(facet: Facet) -> list[Cut]:
    found = []
    total, right = sum(facet.best), sum(facet.rights)
    for place in range(1, len(facet.bins)):
        low, named = sum(facet.best[:place]), sum(facet.rights[:place])
        high = total - low
        if min(low, high) < LEAST:
            continue
        shares = named / low, (right - named) / high
        if abs(shares[0] - shares[1]) >= CLEAR:
            gain = low * high / total * (shares[0] - shares[1]) ** 2
            where = _where(facet, place, shares[0] < shares[1])
            found.append(Cut(where, min(shares), max(shares), gain))
    return found


def _where(facet: Facet, place: int, low: bool) -> str:
    """The worse side of a cut before the bin at ``place``, in words."""
    label = facet.bins[place - 1].rpartition("-")[2]
    axis = AXES.get(facet.by, Axis(facet.by, f"up to {facet.by} {{n}}", f"beyond {facet.by} {{n}}"))
    if low and place == 1 and axis.first:
        return axis.first
    return (axis.low if low else axis.high).format(n=label, s="" if label == "1" else "s")


def _order(label: str) -> tuple[bool, int, str]:
    """By the number that a label begins with; one without a number (``none``) is last."""
    digits = label[: len(label) - len(label.lstrip("0123456789"))]
    return not digits, int(digits or 0), label


def _listed(pairs: Counter[tuple[str, str]]) -> tuple[Mistake, ...]:
    ordered = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Mistake(*pair, count) for pair, count in ordered[:LISTED])
