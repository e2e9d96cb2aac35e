"""What each page shows: plain contexts for the templates, no markup."""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from leaderboard import anatomy_figures, timing_page
from leaderboard.figures import by_variant, of_entry
from leaderboard.load import Case
from leaderboard.rank import OVERALL, Cell, Key, Standing, overall_keys
from leaderboard.task_figures import of_task
from leaderboard.view import HERE, key_label, key_order, level, task_title
from selectivbench.machine import used
from selectivbench.times import Timing

Context = dict[str, Any]


VERIFIED = "every record scored by the trusted workflow, every task audited on secret seeds"


@dataclass(frozen=True)
class Heading:
    """One column of the index."""

    id: str
    label: str
    about: str
    numeric: bool = True
    optional: bool = True
    ascending: bool = False
    """Whether the first click sorts upwards."""


@dataclass(frozen=True)
class Group:
    """Standings that are ranked among each other."""

    profile: str
    device: str
    title: str
    standings: tuple[Standing, ...]
    keys: tuple[Key, ...]


def examples() -> Mapping[str, Mapping[str, Any]]:
    """The committed summary, drawn example and windows of each task."""
    text = (HERE / "examples.json").read_text(encoding="utf-8")
    data: Mapping[str, Mapping[str, Any]] = json.loads(text)
    return data


def keys_of(standings: Sequence[Standing]) -> tuple[Key, ...]:
    """Every (task, variant) that some standing has, in the order of the columns."""
    return tuple(sorted({key for s in standings for key in s.cells}, key=key_order))


def index(standings: Sequence[Standing]) -> Context:
    """Context of the index page."""
    keys = keys_of(standings)
    tags = sorted({tag for s in standings for tag in s.entry.tags})
    profiles = list(dict.fromkeys(s.profile for s in standings))
    devices = sorted({s.device for s in standings})
    profile = "lite" if "lite" in profiles else (profiles or [""])[0]
    return {
        "groups": _groups(standings, keys),
        "columns": _columns(keys),
        "tasks": [(name, task_title(name)) for name in dict.fromkeys(task for task, _ in keys)],
        "filters": [
            ("profile", "Profile", profiles),
            ("device", "Device", devices),
            ("family", "Family", tags),
        ],
        "default_profile": profile,
        "counted": [key_label(key) for key in overall_keys(profile)],
    }


_PLURAL = {"mixer": "mixers", "oversize": "oversize mixers", "model": "whole models"}


def _groups(standings: Sequence[Standing], keys: tuple[Key, ...]) -> list[Group]:
    groups = []
    for (profile, device, division), members in groupby(standings, key=lambda s: s.group):
        title = f"{profile} · {device} · {_PLURAL[division]}"
        groups.append(Group(profile, device, title, tuple(members), keys))
    return groups


def _columns(keys: Sequence[Key]) -> list[Heading]:
    tasks = [
        Heading(f"t{place}", key_label(key), f"score on {key[0]}, {key[1]}")
        for place, key in enumerate(keys, start=1)
    ]
    return [
        Heading("rank", "Rank", "1 + entries whose interval lies wholly above", True, False, True),
        Heading("name", "Entry", "name and id", False, False, True),
        Heading("overall", "Overall", "mean of four tasks with its 95 % interval"),
        *tasks,
        Heading("parameters", "Params", "trained numbers", ascending=True),
        Heading("state", "State", "floats carried for each layer and sequence", ascending=True),
        Heading("train", "Train speed", "relative to the reference timed in the same run"),
        Heading("infer", "Infer speed", "relative to the reference timed in the same run"),
        Heading("tags", "Family", "what kind of layer", numeric=False, ascending=True),
        Heading("verified", "Verified", VERIFIED, False, ascending=True),
        Heading("date", "Date", "of the newest record, UTC", numeric=False),
    ]


def entry(
    standings: Sequence[Standing], cases: Sequence[Case], timings: Sequence[Timing] = ()
) -> Context:
    """Context of one entry's page: a part for each profile and device class, and its history."""
    return {
        "entry": standings[0].entry,
        "parts": [entry_part(s, timings) for s in standings],
        "history": history(standings, cases),
    }


def entry_part(standing: Standing, timings: Sequence[Timing] = ()) -> Context:
    """What one profile and device class says of an entry."""
    anatomies = anatomy_figures.of_standing(standing)
    where = anatomy_figures.chart(standing, anatomies)
    cells = [standing.cells[key] for key in sorted(standing.cells, key=key_order)]
    timed = timing_page.timed(standing, timings)
    speed = None if timed is None else timing_page.of_entry(timed)
    return {
        "standing": standing,
        "cells": cells,
        "failures": [c for cell in cells for c in cell.cases if _told(c, cell)],
        "command": command(standing),
        "environment": _environment(standing),
        "anatomies": anatomy_figures.sentences(anatomies),
        "timed": timed,
        "charts": [*of_entry(standing), *(chart for chart in (where, speed) if chart)],
    }


def _told(case: Case, cell: Cell) -> bool:
    """Whether a failure needs words: a score below its bar speaks for itself."""
    status = case.record.status
    return status not in ("pass", "skip") and not (status == "fail" and cell.bar is not None)


def command(standing: Standing) -> str:
    """The exact command that makes the standing's records again."""
    tasks = ",".join(sorted({cell.task.rpartition("-v")[0] for cell in standing.cells.values()}))
    seeds = ",".join(str(s) for s in sorted({c.record.identity.seed for c in standing.cases}))
    device, mode = used(standing.device)
    return " \\\n    ".join(
        shlex.quote(word)
        for word in (
            "pytest",
            f"--selectiv-model={standing.entry.id}.py",
            f"--selectiv-profile={standing.profile}",
            f"--selectiv-device={device.kind}",
            f"--selectiv-tasks={tasks}",
            f"--selectiv-seeds={seeds}",
            *([f"--selectiv-precision={mode.precision}"] if mode.precision else []),
            *(["--selectiv-cuda-graphs"] if mode.graphs else []),
        )
    )


def _environment(standing: Standing) -> list[tuple[str, str]]:
    """Versions and machine of the newest record; text only, whatever a record holds."""
    newest = max(standing.cases, key=lambda c: (c.moment, c.path.stem)).record
    pairs = {**newest.environment, **newest.machine}
    budget = {f"budget: {name}": value for name, value in newest.budget.items()}
    return [(str(k)[:80], str(v)[:300]) for k, v in sorted({**pairs, **budget}.items())][:60]


def history(standings: Sequence[Standing], cases: Sequence[Case]) -> list[Context]:
    """Every source that the entry has had, newest first."""
    groups: dict[tuple[str, str, str], list[Case]] = defaultdict(list)
    for case in cases:
        who = case.record.identity
        groups[who.source_sha256, who.profile, who.device_class].append(case)
    shown = {(s.source, s.profile, s.device) for s in standings}
    rows = [_version(key, group, key in shown) for key, group in groups.items()]
    return sorted(rows, key=lambda r: (r["last"], r["source"], r["profile"]), reverse=True)


def _version(key: tuple[str, str, str], cases: Sequence[Case], shown: bool) -> Context:
    moments = [c.moment for c in cases]
    return {
        "source": key[0],
        "profile": key[1],
        "device": key[2],
        "first": min(moments)[:10],
        "last": max(moments)[:10],
        "records": len(cases),
        "passed": sum(c.record.status == "pass" for c in cases),
        "shown": shown,
    }


def task(name: str, standings: Sequence[Standing]) -> Context:
    """Context of one task's page, a part for each profile."""
    rows = [(s, cell) for s in standings for cell in s.cells.values() if cell.task == name]
    profiles = dict.fromkeys(s.profile for s, _ in rows)
    return {
        "task": name,
        "title": task_title(name),
        "example": examples().get(name),
        "parts": [_task_part(name, p, [r for r in rows if r[0].profile == p]) for p in profiles],
    }


def _task_part(task: str, profile: str, rows: Sequence[tuple[Standing, Cell]]) -> Context:
    windows = examples().get(task, {}).get("windows", {}).get(profile, {})
    ordered = sorted(rows, key=lambda r: key_order((task, r[1].variant)))
    cells = by_variant((cell for _, cell in ordered), lambda cell: cell.variant)
    by_standing: dict[tuple[str, str], tuple[Standing, dict[str, Cell]]] = {}
    for standing, cell in ordered:
        where = (standing.entry.id, standing.device)
        by_standing.setdefault(where, (standing, {}))[1][cell.variant] = cell
    return {
        "profile": profile,
        "rows": sorted(by_standing.values(), key=_best_first),
        "variants": [_variant(n, same, windows.get(n, ())) for n, same in cells.items()],
        "windows": max(map(len, windows.values()), default=0),
        "charts": of_task(task, profile, rows, windows),
    }


def _best_first(row: tuple[Standing, Mapping[str, Cell]]) -> tuple[bool, float, str, str]:
    """By the mean over the variants that are complete; without any last."""
    standing, cells = row
    values = [cell.mean.value for cell in cells.values() if cell.complete and cell.mean]
    mean = sum(values) / len(values) if values else 0.0
    return not values, -mean, standing.entry.id, standing.device


def _variant(name: str, cells: Sequence[Cell], windows: Sequence[float]) -> Context:
    return {
        "name": name,
        "floor": _average(cells, "floor"),
        "ceiling": _average(cells, "ceiling"),
        "bar": cells[0].bar,
        "windows": windows,
    }


def _average(cells: Sequence[Cell], name: str) -> float | None:
    found = [value for cell in cells if (value := level(cell, name)) is not None]
    return sum(found) / len(found) if found else None


def tasks(standings: Sequence[Standing]) -> list[Context]:
    """Every task that has an example or a record."""
    known = examples()
    names = {task_id for task_id, _ in keys_of(standings)} | set(known)
    return [
        {
            "id": name,
            "title": task_title(name),
            "example": known.get(name),
            "overall": name in OVERALL,
        }
        for name in sorted(names, key=lambda n: key_order((n, "base")))
    ]


def newest_source(standings: Sequence[Standing]) -> str:
    """The source of the standing with the newest record."""
    return max(standings, key=lambda s: (max(c.moment for c in s.cases), s.source)).source
