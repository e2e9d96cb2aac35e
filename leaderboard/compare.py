"""What the compare page needs: the scores of each seed, by profile and device class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leaderboard.rank import TRAINING, Key, Standing
from leaderboard.view import key_label, key_order
from selectivbench.stats import MOST_FLIPS, NORMAL_975, T_975


def context(standings: Sequence[Standing]) -> dict[str, Any]:
    """Groups of at least two comparable standings, with what the script needs."""
    members: dict[tuple[str, str], list[Standing]] = {}
    for standing in standings:
        members.setdefault((standing.profile, standing.device), []).append(standing)
    groups = [_group(*key, some) for key, some in members.items() if len(some) > 1]
    data = {"groups": groups, "t975": T_975, "normal975": NORMAL_975, "most": MOST_FLIPS}
    return {"here": "compare", "groups": groups, "data": data}


def _group(profile: str, device: str, standings: Sequence[Standing]) -> dict[str, Any]:
    keys = sorted({key for s in standings for key in s.cells}, key=key_order)
    return {
        "id": f"{profile}-{device}",
        "title": f"{profile} · {device}",
        "order": [_name(key) for key in keys],
        "training": {_name(key): _name((TRAINING.get(key[0], key[0]), key[1])) for key in keys},
        "labels": {_name(key): key_label(key) for key in keys},
        "entries": [_entry(s, keys) for s in standings],
    }


def _entry(standing: Standing, keys: Sequence[Key]) -> dict[str, Any]:
    scores = {}
    for key in keys:
        if key in standing.cells:
            cases = standing.cells[key].cases
            known = {c.record.identity.seed: c.record.score for c in cases}
            scores[_name(key)] = {
                str(seed): round(score, 6) for seed, score in known.items() if score is not None
            }
    return {"id": standing.entry.id, "name": standing.entry.name, "scores": scores}


def _name(key: Key) -> str:
    return "/".join(key)
