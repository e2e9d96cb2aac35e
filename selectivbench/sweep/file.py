"""A sweep file: TOML, read and checked whole before anything runs.

::

    task = "noisy_gaps"                       # a name of `selectivbench tasks`
    profile = "paper"                         # default: lite
    submissions = ["../submissions/gla.py"]   # files or folders, relative to this file
    seeds = [1, 2, 3, 4]                      # default: the profile's
    save = true                               # keep trained states, for sweeps that reuse them
    reuse = "task2.toml"                      # evaluate its trained states, train nothing

    [fixed]                                   # the same in every cell
    layers = 8

    [submission.mamba]                        # for one submission, instead of [fixed]
    d_state = 64

    [grid]                                    # every combination
    width = [256, 384]
    lr = [5e-4, 1e-3]

    [random]                                  # draws, each combined with every point of the grid
    draws = 20
    seed = 1
    dropout = { low = 0.0, high = 0.3 }
    lr = { low = 1e-4, high = 1e-2, scale = "log" }
    layers = { choices = [2, 4, 8] }

    [choose]                                  # by validation, for each value of the other axes
    axes = ["lr"]
    by = "validation"
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from selectivbench.errors import UsageError, explain, near
from selectivbench.profiles import get_profile
from selectivbench.sizes import Size
from selectivbench.submission import find_files
from selectivbench.sweep.axes import check_axis, read_value
from selectivbench.sweep.draws import Range, read_range
from selectivbench.tasks import Task, get_task

TABLES = ("fixed", "submission", "grid", "random", "choose")
KEYS = ("task", "profile", "submissions", "seeds", "save", "reuse", *TABLES)
FIGURES = ("validation", "best_validation")
"""What a choice may go by: the last validation figure, or the best one of the curve."""


@dataclass(frozen=True)
class Draws:
    """Random search: so many points, each axis from its range."""

    count: int
    seed: int
    ranges: Mapping[str, Range]


@dataclass(frozen=True)
class Choice:
    """Which axes are chosen, and by what figure; never one of the test set."""

    axes: tuple[str, ...] = ()
    by: str = "validation"


@dataclass(frozen=True)
class Sweep:
    """What a sweep file says, checked. Paths are absolute."""

    path: Path
    text: str
    submissions: tuple[Path, ...]
    task: str
    profile: str
    seeds: tuple[int, ...]
    save: bool
    reuse: Path | None
    fixed: Mapping[str, Size]
    of_submission: Mapping[str, Mapping[str, Size]]
    grid: Mapping[str, tuple[Size, ...]]
    draws: Draws | None
    choice: Choice

    @property
    def name(self) -> str:
        """The file's stem."""
        return self.path.stem

    @property
    def axes(self) -> tuple[str, ...]:
        """What is varied, in the order of the file."""
        return (*self.grid, *(self.draws.ranges if self.draws else ()))


def read(path: Path) -> Sweep:
    """The sweep of a file; whatever is wrong with it is a UsageError with the place."""
    text = _text(path)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not TOML: {error}.") from error
    try:
        return _Reader(path.absolute(), text, data).sweep()
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        siblings = [str(p) for p in sorted(path.parent.glob("*.toml"))[:20]]
        allowed = near(str(path), siblings) or "an existing .toml file"
        raise UsageError(explain("sweep file", str(path), allowed)) from error


class _Reader:
    def __init__(self, path: Path, text: str, data: dict[str, Any]) -> None:
        self.path, self.text, self.data = path, text, data

    def sweep(self) -> Sweep:
        for name in self.data:
            if name not in KEYS:
                raise UsageError(explain("key", name, near(name, KEYS)))
        self.task: Task = get_task(self._get("task", str, required=True))
        self.profile = get_profile(self._get("profile", str, "lite"))
        files = self._files()
        grid, draws = self._grid(), self._draws()
        fixed = self._fixed("fixed", self._table("fixed"))
        axes = (*grid, *(draws.ranges if draws else ()))
        _once((*axes, *fixed), "axis")
        return Sweep(
            path=self.path,
            text=self.text,
            submissions=files,
            task=self.task.name,
            profile=self.profile.name,
            seeds=self._seeds(),
            save=self._get("save", bool, False),
            reuse=self._reuse(),
            fixed=fixed,
            of_submission=self._of_submission(files, axes),
            grid=grid,
            draws=draws,
            choice=self._choice(axes),
        )

    def _get(self, name: str, kind: type, default: Any = None, *, required: bool = False) -> Any:
        if name not in self.data and not required:
            return default
        value = self.data.get(name)
        if type(value) is not kind:
            raise UsageError(explain(name, value, f"a {kind.__name__}"))
        return value

    def _table(self, name: str) -> dict[str, Any]:
        table: dict[str, Any] = self._get(name, dict, {})
        return table

    def _files(self) -> tuple[Path, ...]:
        given = self._get("submissions", list, required=True)
        if not given or not all(type(name) is str for name in given):
            raise UsageError(explain("submissions", given, "a list of files or folders"))
        return find_files(self.path.parent / name for name in given)

    def _seeds(self) -> tuple[int, ...]:
        seeds = self._get("seeds", list, list(self.profile.seeds))
        if not seeds or not all(type(seed) is int and seed >= 0 for seed in seeds):
            raise UsageError(explain("seeds", seeds, "a list of whole numbers, 0 or more"))
        _once(seeds, "seed")
        return tuple(seeds)

    def _reuse(self) -> Path | None:
        given = self._get("reuse", str)
        if given is None:
            return None
        path: Path = self.path.parent / given
        if not path.is_file():
            raise UsageError(explain("reuse", given, "a sweep file that trains with `save = true`"))
        return path

    def _fixed(self, where: str, table: Mapping[str, Any]) -> Mapping[str, Size]:
        for axis in table:
            check_axis(axis, where)
        return MappingProxyType({axis: self._value(axis, v) for axis, v in table.items()})

    def _value(self, axis: str, value: Any) -> Size:
        return read_value(axis, value, self.task, self.profile.name)

    def _of_submission(
        self, files: tuple[Path, ...], axes: tuple[str, ...]
    ) -> Mapping[str, Mapping[str, Size]]:
        stems = [file.stem for file in files]
        tables = self._table("submission")
        for stem, table in tables.items():
            if stem not in stems:
                raise UsageError(explain("[submission.…]", stem, near(stem, stems)))
            _once((*axes, *table), "axis")
        return MappingProxyType(
            {stem: self._fixed(f"submission.{stem}", table) for stem, table in tables.items()}
        )

    def _grid(self) -> Mapping[str, tuple[Size, ...]]:
        grid: dict[str, tuple[Size, ...]] = {}
        if "grid" in self.data and not self._table("grid"):
            raise UsageError(explain("grid", "no axis", "at least one, such as lr = [1e-3, 3e-3]"))
        for axis, values in self._table("grid").items():
            check_axis(axis, "grid")
            if type(values) is not list or not values:
                raise UsageError(explain(f"grid {axis}", values, "a list with at least one value"))
            grid[axis] = tuple(self._value(axis, value) for value in values)
            _once(grid[axis], f"grid {axis}")
        return MappingProxyType(grid)

    def _draws(self) -> Draws | None:
        table = dict(self._table("random"))
        if not table:
            return None
        count, seed = table.pop("draws", None), table.pop("seed", 1)
        if type(count) is not int or count < 1:
            raise UsageError(explain("random draws", count, "a whole number, 1 or more"))
        if type(seed) is not int or seed < 0:
            raise UsageError(explain("random seed", seed, "a whole number, 0 or more"))
        ranges = {}
        for axis, given in table.items():
            check_axis(axis, "random", ("draws", "seed"))
            ranges[axis] = read_range(axis, given)
            for value in ranges[axis].ends:
                self._value(axis, value)
        if not ranges:
            raise UsageError(explain("random", "no axis", "at least one, such as lr"))
        return Draws(count, seed, MappingProxyType(ranges))

    def _choice(self, axes: tuple[str, ...]) -> Choice:
        table = self._table("choose")
        for name in table:
            if name not in ("axes", "by"):
                raise UsageError(explain("choose", name, near(name, ("axes", "by"))))
        chosen, by = tuple(table.get("axes", ())), table.get("by", "validation")
        for axis in chosen:
            if axis not in axes:
                raise UsageError(explain("choose axes", axis, near(str(axis), axes)))
        if by not in FIGURES:
            remedy = "a choice never looks at the test set"
            raise UsageError(explain("choose by", by, ", ".join(FIGURES), remedy))
        return Choice(chosen, by)


def _once(values: Any, what: str) -> None:
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            raise UsageError(explain(what, f"{value} twice", "each once"))
        seen.add(value)
