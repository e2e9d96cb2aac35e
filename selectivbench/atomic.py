"""Files that a reader sees whole or not at all, whatever ends the writer."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write(path: Path, data: bytes, moment: int | None = None) -> None:
    """Put ``data`` in the place of a file; OSError leaves the old one as it was.

    moment: of its last change, in nanoseconds; by default now.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        os.fchmod(descriptor, 0o644)  # 0600 would shut colleagues out of a shared folder
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if moment is not None:
            os.utime(name, ns=(moment, moment))
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
