"""What the gates of a case's model did, as a file beside its events: ``SESSION/STEM.gates.npz``."""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from selectivbench import atomic

KINDS, SYMBOLS = "names of kinds", "names of symbols"


@dataclass(frozen=True, eq=False)
class Gates:
    """Enough to draw them.

    arrays: of a few held-out sequences, see ``mechanism.examine.arrays``. kinds: names of what a step
    can be. symbols: of tokens.
    """

    arrays: Mapping[str, NDArray[Any]]
    kinds: tuple[str, ...]
    symbols: tuple[str, ...]

    @staticmethod
    def path(folder: Path, stem: str) -> Path:
        """Where those of a record are or would be."""
        return folder / f"{stem}.gates.npz"

    def write(self, path: Path) -> None:
        """Keep them."""
        names = {KINDS: np.array(self.kinds, dtype=str), SYMBOLS: np.array(self.symbols, dtype=str)}
        file = io.BytesIO()
        np.savez_compressed(file, **cast(Any, {**self.arrays, **names}))
        atomic.write(path, file.getvalue())

    @classmethod
    def read(cls, path: Path) -> Gates | None:
        """From a file that ``write`` made; None where there is none."""
        try:
            arrays = dict(np.load(io.BytesIO(path.read_bytes()), allow_pickle=False))
            kinds, symbols = (tuple(map(str, arrays.pop(name))) for name in (KINDS, SYMBOLS))
        except (OSError, EOFError, ValueError, TypeError, KeyError, BadZipFile, zlib.error):
            return None
        return cls(arrays, kinds, symbols)
