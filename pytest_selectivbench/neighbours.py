"""The sources that a submission is compared with: those beside it, and the leaderboard's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from selectivbench.submission import LARGEST_FILE


def neighbours(path: Path) -> Mapping[str, str]:
    """Text of every other entry by its name; what cannot be read is nobody's copy."""
    found = dict(_committed(files("leaderboard").joinpath("results")))
    for file in sorted(path.parent.glob("*.py")):
        text = _text(file)
        if text is not None:
            found[file.stem] = text
    found.pop(path.stem, None)
    return found


def _committed(results: Traversable) -> Iterator[tuple[str, str]]:
    """(entry, source) of the packaged records, in the order of their names."""
    seen = set()
    for file in sorted(results.iterdir(), key=lambda f: f.name) if results.is_dir() else ():
        if file.name.endswith(".json"):
            with suppress(
                ValueError, KeyError, TypeError
            ):  # `leaderboard check` is where it is said
                identity = json.loads(file.read_text(encoding="utf-8"))["identity"]
                entry, sha = identity["entry"], identity["source_sha256"]
                source = results.joinpath("sources", f"{sha}.py")
                if (entry, sha) not in seen and source.is_file():
                    seen.add((entry, sha))
                    yield entry, source.read_text(encoding="utf-8")


def _text(file: Path) -> str | None:
    """None where it is no submission: a link, too large, or no UTF-8."""
    if file.is_symlink() or not file.is_file() or file.stat().st_size > LARGEST_FILE:
        return None
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
