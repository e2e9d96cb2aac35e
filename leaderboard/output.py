"""The built site's folder: writes only what changed, removes only what an earlier build wrote."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from selectivbench.errors import UsageError, explain

MANIFEST = ".build.json"

Files = Mapping[str, str | bytes]
"""Contents by path from the site's root."""
Group = tuple[str, Mapping[str, str]]
"""What a group of files was made from, and the sha of each file."""


class Output:
    """Files of one build, in groups that are made together and skipped together."""

    def __init__(self, out: Path, salt: str) -> None:
        self.out, self.salt = out, salt
        self._before = _manifest(out)
        self._now: dict[str, Group] = {}
        self.written: list[str] = []
        if out.is_dir() and any(out.iterdir()) and not (out / MANIFEST).is_file():
            allowed = "a new, empty or earlier built folder"
            remedy = "choose another --out, so that no file of yours is replaced"
            raise UsageError(explain("output folder", str(out), allowed, remedy))

    def write(self, path: str, inputs: str, make: Callable[[], str | bytes]) -> None:
        """One file; ``make`` is called only where inputs or file are not as the last build left."""
        self.group(path, inputs, lambda: {path: make()})

    def group(self, name: str, inputs: str, make: Callable[[], Files]) -> None:
        """Several files that follow from the same inputs."""
        key = digest(self.salt, inputs)
        before = self._before.get(name)
        if before is not None and before[0] == key and self._intact(before[1]):
            self._now[name] = before
            return
        files = {p: t.encode() if isinstance(t, str) else t for p, t in make().items()}
        self._now[name] = (key, {p: hashlib.sha256(data).hexdigest() for p, data in files.items()})
        for path, data in files.items():
            self._put(path, data)

    def finish(self) -> None:
        """Remove the files of the last build that this one has not, then write the manifest."""
        kept = {path for _, files in self._now.values() for path in files}
        gone = {path for _, files in self._before.values() for path in files} - kept
        for path in sorted(gone):
            target = self.out / path
            if target.resolve().is_relative_to(self.out.resolve()):
                target.unlink(missing_ok=True)
        text = json.dumps(self._now, indent=0, sort_keys=True) + "\n"
        target = self.out / MANIFEST
        if not target.is_file() or target.read_text(encoding="utf-8") != text:
            self.out.mkdir(parents=True, exist_ok=True)
            _replace(target, text.encode())

    def _intact(self, files: Mapping[str, str]) -> bool:
        for path, sha in files.items():
            target = self.out / path
            if not target.is_file() or hashlib.sha256(target.read_bytes()).hexdigest() != sha:
                return False
        return True

    def _put(self, path: str, data: bytes) -> None:
        target = self.out / path
        if not target.is_file() or target.read_bytes() != data:
            target.parent.mkdir(parents=True, exist_ok=True)
            _replace(target, data)
            self.written.append(path)


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


def _manifest(out: Path) -> dict[str, Group]:
    """The last build's groups; a file that is no manifest is as good as none."""
    try:
        data: dict[str, Any] = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
        return {str(name): (str(key), dict(files)) for name, (key, files) in data.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
