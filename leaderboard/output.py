"""The built site's folder: writes only what changed, removes only what an earlier build wrote."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from selectivbench.errors import UsageError, explain

MANIFEST = ".build.json"


class Output:
    """Files of one build. ``write`` skips the work where the inputs are those of the last build."""

    def __init__(self, out: Path, salt: str) -> None:
        self.out, self.salt = out, salt
        self._before = _manifest(out)
        self._now: dict[str, list[str]] = {}
        self.written: list[str] = []
        if not self._before and out.is_dir() and any(out.iterdir()):
            raise UsageError(
                explain("output folder", str(out), "a new, empty or earlier built folder",
                        "choose another --out, so that no file of yours is replaced")
            )  # fmt: skip

    def write(self, path: str, inputs: str, make: Callable[[], str | bytes]) -> None:
        """Write what ``make`` gives, unless inputs and file are as the last build left them."""
        key = digest(self.salt, inputs)
        target = self.out / path
        if self._unchanged(path, key, target):
            self._now[path] = self._before[path]
            return
        made = make()
        data = made.encode() if isinstance(made, str) else made
        self._now[path] = [key, hashlib.sha256(data).hexdigest()]
        if not target.is_file() or target.read_bytes() != data:
            target.parent.mkdir(parents=True, exist_ok=True)
            _replace(target, data)
            self.written.append(path)

    def finish(self) -> None:
        """Remove the files of the last build that this one has not, then write the manifest."""
        for path in sorted(set(self._before) - set(self._now)):
            target = self.out / path
            if target.resolve().is_relative_to(self.out.resolve()):
                target.unlink(missing_ok=True)
        text = json.dumps(self._now, indent=0, sort_keys=True) + "\n"
        target = self.out / MANIFEST
        if not target.is_file() or target.read_text(encoding="utf-8") != text:
            self.out.mkdir(parents=True, exist_ok=True)
            _replace(target, text.encode())

    def _unchanged(self, path: str, key: str, target: Path) -> bool:
        before = self._before.get(path)
        if before is None or before[0] != key or not target.is_file():
            return False
        return hashlib.sha256(target.read_bytes()).hexdigest() == before[1]


def digest(*parts: str) -> str:
    """SHA-256 of texts, each with its length, so that no two lists give the same bytes."""
    joined = hashlib.sha256()
    for part in parts:
        data = part.encode()
        joined.update(f"{len(data)}:".encode() + data)
    return joined.hexdigest()


def _replace(target: Path, data: bytes) -> None:
    """In one step: a reader of the page never sees half of it."""
    part = target.with_name(target.name + ".part")
    part.write_bytes(data)
    part.replace(target)


def _manifest(out: Path) -> dict[str, list[str]]:
    try:
        data = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    good = isinstance(data, dict) and all(
        isinstance(v, list) and len(v) == 2 and all(isinstance(x, str) for x in v)
        for v in data.values()
    )
    return data if good else {}
