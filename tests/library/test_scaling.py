"""The growth table: one size is changed at a time, and more of it costs more."""

from __future__ import annotations

from pathlib import Path

import pytest

from selectivbench import scaling
from tests.library.test_runner import MIXER


def test_a_line_for_each_size_that_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(MIXER.format(forward=""))
    grids = {"width": (32, 256), "length": (16, 256), "classes": (4, 2048)}
    monkeypatch.setattr(scaling, "GRIDS", grids)
    _, _, *lines = scaling.rows(path)
    assert [line.split()[1] for line in lines] == ["width", "length", "classes"]
    for line in lines:
        small, large = (
            float(part.split(": ")[1].split()[0]) for part in line.split(" | ")[1].split(", ")
        )
        assert large > 2 * small
