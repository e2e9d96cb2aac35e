"""The layers that every speed is relative to, of the entry's width and timed in the same run.

A machine's own speed, and a busy neighbour, are in both times and leave their ratio alone. Children get
these files' text as they get a submission's; nothing imports them.
"""

from __future__ import annotations

from importlib.resources import files

NAMES = ("LSTM", "attention")


def source(name: str) -> str:
    """The text of one of ``NAMES``."""
    return files(__package__).joinpath(f"{name.lower()}.py").read_text(encoding="utf-8")
