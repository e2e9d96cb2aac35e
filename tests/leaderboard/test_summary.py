"""The Markdown table of a workflow run: right figures, and no markup of a submission's author."""

from __future__ import annotations

from pathlib import Path

import pytest

from leaderboard.__main__ import main
from leaderboard.summary import plain
from tests.leaderboard import made


def test_each_task_is_a_line_with_its_figures_and_causes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = "</details> | <script>\n# head [x](http://x) @all"
    folder = made.write(
        tmp_path,
        [
            *made.suite("lstm", 0.9),
            made.record("gru", "mqar-v1", score=None, status="crash", cause=bad),
        ],
    )
    (folder / "bad.json").write_text("{}", encoding="utf-8")
    assert main(["summary", str(folder)]) == 0
    out = capsys.readouterr().out
    table = [line for line in out.splitlines() if line.startswith("|")]
    assert len(table) == 2 + 4 + 1
    assert all(line.replace("\\|", "").count("|") == 9 for line in table)
    assert any("distractors" in line and "0.900 ± 0.025" in line for line in table)
    assert any("gru" in line and "| – |" in line and "crash" in line for line in table)
    assert "refused bad.json" in out
    assert "<script>" not in out
    assert "\n# head" not in out


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("plain words", "plain words"),
        ("a|b", "a\\|b"),
        ("<b>&", "&lt;b&gt;&amp;"),
        ("[x](y)", "\\[x\\](y)"),
        ("two\nlines", "two lines"),
        ("@all", "@\u200ball"),
        ("x" * 400, "x" * 300),
    ],
)
def test_text_loses_its_meaning(text: str, wanted: str) -> None:
    assert plain(text) == wanted
