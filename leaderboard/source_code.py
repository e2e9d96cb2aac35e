"""Highlighted source of a submission. It is text here: nothing of it is run or imported."""

from __future__ import annotations

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

LARGEST = 200_000
"""Characters that are shown; more would make a page of many megabytes."""


def html(source: str) -> str:
    """The source as HTML; Pygments escapes it."""
    shown = source[:LARGEST]
    tail = "\n# … cut here; save the file to see all of it\n" if len(source) > LARGEST else ""
    return highlight(shown + tail, PythonLexer(), HtmlFormatter(nowrap=False, cssclass="hl"))
