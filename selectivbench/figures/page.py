"""The paper that figures are drawn on: sizes, type, marks that differ without colour, and files."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selectivbench.errors import UsageError, explain, near

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("svg", "pdf", "png")
COLOURS = ("#111111", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
"""Okabe and Ito's, which colour-blind readers tell apart; their greys differ too."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 2)),
    (0, (1.5, 1.5)),
    (0, (6, 2, 1.5, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
)
SOFT, PALE = "#666666", "#c8c8c8"
PIXELS = 300
"""Dots an inch of a PNG."""


@dataclass(frozen=True)
class Look:
    """width: of the whole figure in inches (a column of a paper has 3.25, a page 6.75). size: of the
    type in points, as it stands on paper."""

    width: float = 6.75
    size: float = 8.0

    def __post_init__(self) -> None:
        if not 1.5 <= self.width <= 40:
            raise UsageError(explain("width", self.width, "1.5 to 40 inches"))
        if not 4 <= self.size <= 40:
            raise UsageError(explain("font size", self.size, "4 to 40 points"))


@dataclass(frozen=True, eq=False)
class Drawn:
    """A figure, and the numbers that it shows."""

    figure: Figure
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def pixels(self, dots: int) -> NDArray[np.uint8]:
        """The figure as an image (height, width, 4), so many dots an inch."""
        self.figure.set_dpi(dots)
        canvas: Any = self.figure.canvas
        canvas.draw()
        return np.array(canvas.buffer_rgba())

    def save(self, folder: Path, name: str, formats: Sequence[str]) -> list[Path]:
        """``NAME.svg`` and so on, and ``NAME.csv``; the same numbers give the same bytes."""
        import matplotlib as mpl

        folder.mkdir(parents=True, exist_ok=True)
        written = []
        with mpl.rc_context({"svg.hashsalt": name}):
            for kind in formats:
                path = folder / f"{name}.{kind}"
                self.figure.savefig(path, dpi=PIXELS, metadata=_undated(kind))
                written.append(path)
        path = folder / f"{name}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([self.columns, *self.rows])
        return [*written, path]


def _undated(kind: str) -> dict[str, Any]:
    return {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})


def checked_formats(text: str) -> tuple[str, ...]:
    """The formats of ``svg,pdf``; an unknown one is a UsageError with the near one."""
    names = tuple(dict.fromkeys(filter(None, text.split(","))))
    for name in names:
        if name not in FORMATS:
            raise UsageError(explain("format", name, near(name, FORMATS)))
    return names


@contextmanager
def styled(look: Look) -> Iterator[None]:
    """Draw in here. UsageError where matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        remedy = "pip install 'selectivbench[figures]'"
        raise UsageError(explain("matplotlib", "not installed", "the extra figures", remedy))
    import matplotlib as mpl

    with mpl.rc_context(_settings(look.size)):
        yield


def _settings(size: float) -> dict[Any, Any]:
    return {
        "font.size": size,
        "font.family": "DejaVu Sans",
        "axes.titlesize": size,
        "axes.labelsize": size,
        "xtick.labelsize": 0.9 * size,
        "ytick.labelsize": 0.9 * size,
        "legend.fontsize": 0.9 * size,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.6,
        "axes.edgecolor": SOFT,
        "xtick.color": SOFT,
        "ytick.color": SOFT,
        "xtick.labelcolor": "#222222",
        "ytick.labelcolor": "#222222",
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.axisbelow": True,
        "grid.color": "#e2e2e2",
        "grid.linewidth": 0.6,
        "lines.linewidth": 1.3,
        "lines.markersize": 0.5 * size,
        "legend.frameon": False,
        "legend.handlelength": 2.6,
        "figure.constrained_layout.use": True,
        "pdf.fonttype": 42,  # type that an editor can still change; Type 3 is refused by journals
    }


def blank(width: float, height: float) -> Figure:
    """A figure of its own: no window, and nothing kept in pyplot's memory."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def panels(look: Look, count: int, least: float, height: float) -> tuple[Figure, list[list[Axes]]]:
    """Axes for ``count`` panels as a list of each row's, as many in a row as have ``least`` inches and
    so that rows are even; ``height`` inches each."""
    rows = -(-count // max(1, int(look.width // least)))
    across = -(-count // rows)
    figure = blank(look.width, rows * height)
    grid = [list(row) for row in figure.subplots(rows, across, squeeze=False)]
    for unused in grid[-1][count - (rows - 1) * across :]:
        unused.remove()
    return figure, [*grid[:-1], grid[-1][: count - (rows - 1) * across]]


def finish(figure: Figure, title: str, handles: Mapping[str, Any], look: Look) -> None:
    """Title above and legend below, for which the figure grows."""
    letters = int(look.width * 72 / (0.76 * look.size))
    lines = wrap(title, letters)
    figure.suptitle("\n".join(lines), x=0.01, ha="left", fontweight="bold")
    rows = 0
    if handles:
        widest = look.size * (5.5 + 0.55 * max(map(len, handles)))
        columns = max(1, min(len(handles), int(look.width * 72 / widest)))
        rows = -(-len(handles) // columns)
        figure.legend(
            list(handles.values()), list(handles), loc="outside lower left", ncols=columns
        )
    more = look.size * (1.6 * len(lines) + 1.45 * rows + (1 if rows else 0)) / 72
    figure.set_size_inches(look.width, figure.get_figheight() + more)


def handles_of(axes: Iterable[Axes]) -> dict[str, Any]:
    """One legend entry for each name that occurs in some axes."""
    pairs = [zip(*ax.get_legend_handles_labels(), strict=True) for ax in axes]
    return {name: handle for pair in pairs for handle, name in pair}


def mark(place: int) -> dict[str, Any]:
    """Colour, marker and dash of a series; the three cycles differ in length, so 120 are distinct."""
    return {
        "color": COLOURS[place % len(COLOURS)],
        "marker": MARKERS[place % len(MARKERS)],
        "linestyle": DASHES[place % len(DASHES)],
        "markerfacecolor": "white" if place % 2 else COLOURS[place % len(COLOURS)],
        "markeredgewidth": 1.0,
    }
