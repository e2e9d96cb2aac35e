"""The isolation ladder as a person asks for it, and what of it can be had on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from selectivbench.errors import UsageError, explain, near
from selectivbench.sandbox.environment import environment

NAMES = ("none", "process", "landlock", "namespaces")
"""Level 0, 1, 2, 3."""
HIGHEST = "highest"


@dataclass(frozen=True)
class Isolation:
    """level: 0 to 3. user: whether children change to an id of their own. notes: what is missing."""

    level: int
    user: bool = False
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What records call it."""
        return NAMES[self.level]

    def __str__(self) -> str:
        """For the header: the level, its name, and whatever it lacks."""
        lacks = f"; {'; '.join(self.notes)}" if self.notes else ""
        return f"{self.level} ({self.name}{lacks})"


def resolve(asked: str) -> Isolation:
    """The isolation of ``0`` to ``3``, a level's name, or ``highest``; UsageError where it cannot
    be had: a level that was asked for is never replaced by a lower one."""
    choices = (*NAMES, *map(str, range(len(NAMES))), HIGHEST)
    if asked not in choices:
        raise UsageError(explain("--selectiv-isolate", asked, near(asked, choices)))
    if asked in ("0", "none"):
        return Isolation(0)
    found = probe()
    best = _best(found)
    if asked == HIGHEST:
        return _with_notes(best, found)
    level = NAMES.index(asked) if asked in NAMES else int(asked)
    if level > best:
        lacking = _lacking(found)
        allowed = f"{best} or less on this machine"
        raise UsageError(explain("--selectiv-isolate", asked, allowed, "; ".join(lacking)))
    return _with_notes(level, found)


def probe() -> Mapping[str, str]:
    """Why each means fails here, "" where it works: tried out, in a process of its own."""
    command = [sys.executable, "-P", "-m", "selectivbench.sandbox.probe"]
    done = subprocess.run(
        command, cwd="/", env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode:
        why = done.stderr.strip().rpartition("\n")[2]
        return dict.fromkeys(("user", "landlock", "namespaces"), f"the probe failed: {why}")
    found: dict[str, str] = json.loads(done.stdout)
    return found


def _best(found: Mapping[str, str]) -> int:
    if found["landlock"]:
        return 1
    return 2 if found["namespaces"] else 3


def _with_notes(level: int, found: Mapping[str, str]) -> Isolation:
    """Root without a user for the child is said; an ordinary person's child keeps their user."""
    notes = [f"runs as root: {found['user']}"] if found["user"] and os.geteuid() == 0 else []
    if level < _best(found):
        return Isolation(level, not found["user"], tuple(notes))
    return Isolation(level, not found["user"], (*notes, *_lacking(found)))


def _lacking(found: Mapping[str, str]) -> list[str]:
    return [f"no {name}: {found[name]}" for name in ("landlock", "namespaces") if found[name]]
