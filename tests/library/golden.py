"""Where the published outputs lie, for tests that compare with them in full."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = [Path(os.environ.get("SELECTIVBENCH_GOLDEN", "")), ROOT.parent / "shared" / "golden"]
FOLDERS.append(ROOT.parents[1] / "shared" / "golden")


ABSENT = pytest.mark.skip(reason="no published outputs beside this checkout; digests hold the line")


def golden_files(pattern: str) -> list[Any]:
    """A test parameter for each file of a name, or one that is skipped with the reason."""
    for folder in FOLDERS:
        if str(folder) != "." and (found := sorted(folder.glob(pattern))):
            return [pytest.param(path, id=path.name) for path in found]
    return [pytest.param(None, marks=ABSENT, id="absent")]


def load(path: Path) -> dict[str, Any]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    content: dict[str, Any] = json.loads(text)
    return content
