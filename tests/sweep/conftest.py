"""Sweep files as text, in folders of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

SUBMISSION = """
from torch import nn


def Mixer(spec):
    return nn.Linear(spec.d_model, spec.d_model)
"""
TINY = """
task = "selective_copy"
profile = "smoke"
submissions = ["linear.py"]
seeds = [1, 2]

[fixed]
width = 16
steps = 2
batch_size = 4

[grid]
lr = [1e-3, 1e-2]

[choose]
axes = ["lr"]
"""


@pytest.fixture
def sweep_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a sweep file beside the submissions ``linear`` and ``twin``; gives its path."""

    def write(text: str = TINY, name: str = "tiny.toml") -> Path:
        for stem in ("linear", "twin"):
            (tmp_path / f"{stem}.py").write_text(SUBMISSION)
        path = tmp_path / name
        path.write_text(text)
        return path

    return write
