"""Which records have a W&B run: a small file for each, beside the training's events."""

from __future__ import annotations

import fcntl
import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

from selectivbench import atomic

ENDING = ".wandb.json"
CLAIM = re.compile(r"wandb-[0-9a-f]{32}\.lock")
"""A mark names its claim, and a look at a dead one removes it: no other file can be a claim."""


@dataclass(frozen=True)
class Mirrored:
    """What is known of a record's W&B run.

    created: when the record was. whole: the run has all of the record. mode: online, offline (also
    a run that W&B did not take in time) or disabled. folder: the run's local files. claimant: the
    name of the claim of whoever makes the run, while it is not whole.
    """

    project: str
    created: str
    whole: bool = False
    mode: str = ""
    folder: str = ""
    url: str = ""
    claimant: str = ""

    @classmethod
    def of(cls, folder: Path, stem: str) -> Mirrored | None:
        """That of a record; None where there is none."""
        return cls.at(cls.path(folder, stem))

    @classmethod
    def at(cls, path: Path) -> Mirrored | None:
        """What a file says; None where there is none."""
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    @classmethod
    def since(cls, folder: Path, stem: str, began: float) -> Mirrored | None:
        """That of a record where its run was made since a time (seconds since 1970)."""
        path = cls.path(folder, stem)
        return cls.at(path) if path.is_file() and path.stat().st_mtime >= began else None

    @staticmethod
    def path(folder: Path, stem: str) -> Path:
        """Where that of a record is or would be."""
        return folder / f"{stem}{ENDING}"

    def settles(self, project: str, created: str, folder: Path) -> bool:
        """Whether a record needs no run in a project: it has one, or somebody is making it."""
        if (self.project, self.created) != (project, created):
            return False
        return self.mode != "disabled" if self.whole else is_alive(folder, self.claimant)

    def write(self, path: Path) -> None:
        """Keep it."""
        atomic.write(path, json.dumps(asdict(self)).encode() + b"\n")


class Claim:
    """A locked file, by which others see that whoever claims records lives.

    The process that is told holds the lock too: it still makes runs when its teller was killed.
    """

    def __init__(self, folder: Path) -> None:
        self.name = f"wandb-{uuid4().hex}.lock"
        self._path = folder / self.name
        self.descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        fcntl.flock(self.descriptor, fcntl.LOCK_EX)

    def close(self) -> None:
        """Nothing is claimed any more."""
        self._path.unlink(missing_ok=True)
        os.close(self.descriptor)


def is_alive(folder: Path, name: str) -> bool:
    """Whether whoever made a claim lives. The file of one who was killed goes with this look."""
    if not CLAIM.fullmatch(name):
        return False
    path = folder / name
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        # Shared: lookers see no other looker.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
