"""Where the published outputs lie, for tests that compare with them in full."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDERS = [Path(os.environ.get("SELECTIVBENCH_GOLDEN", "")), ROOT.parent / "shared" / "golden"]
FOLDERS.append(ROOT.parents[1] / "shared" / "golden")


def golden_files(pattern: str) -> list[Path]:
    """The files of a name; none where the folder is not there (digests in the tests hold then)."""
    for folder in FOLDERS:
        if str(folder) != "." and folder.is_dir():
            return sorted(folder.glob(pattern))
    return []


def load(path: Path) -> dict[str, Any]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    content: dict[str, Any] = json.loads(text)
    return content
