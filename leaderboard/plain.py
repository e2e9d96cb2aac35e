"""Files of people: read only where they are plain, and no larger than such a file can be."""

from __future__ import annotations

from pathlib import Path

from selectivbench.errors import RecordError, explain


def read_plain(path: Path, what: str, largest: int) -> bytes:
    """Content of a file; RecordError where it is a link, no file, or of more than ``largest`` bytes."""
    if path.is_symlink() or not path.is_file():
        raise RecordError(f"a link or no plain file; copy the {what} itself.")
    if (size := path.stat().st_size) > largest:
        raise RecordError(explain("file size", size, f"{largest} bytes or less"))
    return path.read_bytes()
