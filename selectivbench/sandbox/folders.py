"""The working folder of one child: made for it, and gone afterwards whatever it left there."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def own_folder(level: int, user: int | None) -> Iterator[str]:
    """An empty folder that is the child's alone, gone afterwards; none for a thread."""
    if not level:
        yield ""
        return
    folder = tempfile.mkdtemp(prefix="selectiv-")
    if user is not None:
        os.chown(folder, user, user)
    try:
        yield folder
    finally:
        sweep(folder)


def sweep(folder: str) -> None:
    """Remove a folder that a stranger filled: closed folders and endless depth are no obstacle."""
    try:
        shutil.rmtree(folder)
    except (OSError, RecursionError):
        quiet = {"stderr": subprocess.DEVNULL, "check": False}
        subprocess.run(["chmod", "-R", "u+rwX", folder], **quiet)  # type: ignore[call-overload]
        subprocess.run(["rm", "-rf", folder], **quiet)  # type: ignore[call-overload]
