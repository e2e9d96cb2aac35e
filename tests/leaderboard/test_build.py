"""The built site: whole, deterministic, incremental, and safe against what records hold."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from leaderboard.__main__ import main
from leaderboard.audits import take_in
from leaderboard.load import RESULTS
from leaderboard.render import build
from selectivbench.audited import Audited
from selectivbench.errors import UsageError
from selectivbench.record import Finding
from tests.leaderboard import made


def tree(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


class Links(HTMLParser):
    """Every address that a page links to or loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value and tag != "use":
                self.found.append(value)
            if name == "id" and value:
                assert value not in self.ids, f"id {value} twice"
                self.ids.add(value)


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return made.write(
        tmp_path / "records",
        [
            *made.suite("lstm", 0.9, about={"tags": ("rnn",), "paper": "https://example.org/p"}),
            *made.suite("s4d", 0.4),
            *made.suite("wide", 0.8, oversize=True),
            *made.suite("whole", 0.8, about={"kind": "model"}),
            *made.suite("lstm", 0.8, source="older", created="2025-01-01T00:00:00+00:00"),
            made.record("gru", score=None, status="timeout", cause="fit: 60 s passed <b>"),
            made.record("gru", "memorization-v1", variant="amb8"),
            made.record("gru", "memorization-v1", variant="amb20"),
            made.record("gru", profile="smoke", score=None),
        ],
    )


def test_every_page_is_there_and_every_link_leads_somewhere(tmp_path: Path, records: Path) -> None:
    out = tmp_path / "site"
    report = build([records], out)
    assert report.index == out / "index.html"
    assert report.refused == ()
    pages = sorted(out.rglob("*.html"))
    names = {p.relative_to(out).as_posix() for p in pages}
    assert {"index.html", "entries/gru.html", "tasks/memorization-v1.html", "data.html"} <= names
    for page in pages:
        for address in Links(page.read_text(encoding="utf-8")).found:
            if address.startswith("https://"):
                continue
            path, _, fragment = address.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.is_file(), f"{page.name} links to {address}"
            if fragment and "=" not in fragment:  # what has = is a state for the script
                assert fragment in Links(target.read_text(encoding="utf-8")).ids, address


def test_the_same_records_give_the_same_bytes_whatever_the_folder(
    tmp_path: Path, records: Path
) -> None:
    build([records], tmp_path / "a")
    moved = records.rename(tmp_path / "moved")
    build([moved], tmp_path / "b")
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_a_second_build_writes_nothing_and_a_new_record_touches_only_its_pages(
    tmp_path: Path, records: Path
) -> None:
    out = tmp_path / "site"
    build([records], out)
    assert build([records], out).written == ()
    made.write(records, [made.record("gru", seed=2, score=0.5)])
    changed = set(build([records], out).written)
    assert {"index.html", "entries/gru.html"} <= changed
    assert not {name for name in changed if "lstm" in name or "static/" in name}


def test_an_incremental_build_gives_the_bytes_of_a_fresh_one(tmp_path: Path, records: Path) -> None:
    build([records], tmp_path / "a")
    made.write(records, made.suite("mamba", 0.99))
    for path in records.glob("s4d-*.json"):
        path.unlink()
    build([records], tmp_path / "a")
    build([records], tmp_path / "b")
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
    assert not (tmp_path / "a" / "entries" / "s4d.html").exists()


def test_a_page_that_somebody_changed_is_made_again(tmp_path: Path, records: Path) -> None:
    out = tmp_path / "site"
    build([records], out)
    (out / "index.html").write_text("hacked", encoding="utf-8")
    assert build([records], out).written == ("index.html",)


def test_a_folder_with_other_files_is_not_touched(tmp_path: Path, records: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x", encoding="utf-8")
    with pytest.raises(UsageError, match="choose another --out"):
        build([records], tmp_path / "mine")
    assert tree(tmp_path / "mine") == {"thesis.tex": b"x"}


def test_a_forged_manifest_removes_nothing_outside(tmp_path: Path, records: Path) -> None:
    out = tmp_path / "site"
    build([records], out)
    outside = tmp_path / "precious.txt"
    outside.write_text("x", encoding="utf-8")
    manifest = out / ".build.json"
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(
        text.replace("{", '{"x": ["a", {"../precious.txt": "b"}],', 1), encoding="utf-8"
    )
    assert "../precious.txt" in manifest.read_text(encoding="utf-8")
    build([records], out)
    assert outside.exists()
    assert "../precious.txt" not in manifest.read_text(encoding="utf-8")


SCRIPT = "<script>alert(1)</script>\"'&"


def test_markup_in_records_and_sources_stays_text(tmp_path: Path) -> None:
    about = {
        "name": SCRIPT,
        "authors": SCRIPT,
        "paper": "javascript:alert(1)",
        "tags": (SCRIPT, "a\nb"),
    }
    source = f"# {SCRIPT}\n"
    made_records = [
        *made.suite("bad", 0.9, about=about, source=source, environment={SCRIPT: SCRIPT}),
        made.record("bad", "mqar-v1", score=None, status="crash", cause=SCRIPT, about=about),
    ]
    folder = made.write(tmp_path / "records", made_records, source=lambda _: source)
    build([folder], tmp_path / "site")
    pages = list((tmp_path / "site").rglob("*.html")) + list((tmp_path / "site").rglob("*.svg"))
    assert pages
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert "<script>alert" not in text
        assert not re.search(r"href=[\"']?\s*javascript", text, re.IGNORECASE)
    assert "&lt;script&gt;" in (tmp_path / "site/entries/bad.html").read_text(encoding="utf-8")


def test_missing_results_are_never_a_zero(tmp_path: Path) -> None:
    folder = made.write(tmp_path / "records", [made.record("gru", score=None, status="timeout")])
    build([folder], tmp_path / "site")
    index = (tmp_path / "site/index.html").read_text(encoding="utf-8")
    row = re.search(r"<tr data-tags.*?</tr>", index, re.DOTALL)
    assert row is not None
    assert "0.000" not in row[0]
    assert "timeout" in row[0]


def test_checks_audits_and_likeness_are_on_the_pages(tmp_path: Path) -> None:
    broken = Finding("causality", False, "change <2>, allowed: 0.0001")
    records = [
        *made.suite("fair", 0.9, validity=made.CHECKED),
        *made.suite("carrier", 0.95),
        made.record("peeks", validity=(broken,)),
    ]
    folder = made.write(tmp_path / "records", records)
    gaps = tuple(made.gap(r, 0.9, 0.3 if r.identity.entry == "carrier" else 0.88) for r in records)
    (tmp_path / "audit.json").write_text(Audited("a" * 64, "namespaces", gaps).to_json())
    take_in(tmp_path / "audit.json", folder)
    build([folder], tmp_path / "site")
    index, fair, carrier, peeks = (
        (tmp_path / "site" / name).read_text(encoding="utf-8")
        for name in ("index.html", *(f"entries/{e}.html" for e in ("fair", "carrier", "peeks")))
    )
    assert index.count(">marked</span>") == 2
    assert "shuffled-labels" in fair
    assert '<a href="carrier.html">carrier</a> 1.000' in fair
    assert "Marked: not ranked" not in fair
    assert "Audit on secret seeds" in fair
    assert "marked: public is better by too much" in carrier
    assert "No validity checks were run" in carrier
    assert "causality does not hold: change &lt;2&gt;, allowed: 0.0001." in peeks
    assert "marked, not ranked" in (tmp_path / "site/badges/carrier.svg").read_text()


def test_a_new_audit_changes_the_page_of_its_entry(tmp_path: Path) -> None:
    records = made.suite("lstm", 0.9)
    folder = made.write(tmp_path / "records", records)
    build([folder], tmp_path / "site")
    gap = made.gap(records[0], 0.9, 0.1)
    (tmp_path / "audit.json").write_text(Audited("a" * 64, "landlock", (gap,)).to_json())
    arguments = ["add", str(folder), "--audit", str(tmp_path / "audit.json")]
    assert main([*arguments, "--results", str(folder)]) == 0
    written = build([folder], tmp_path / "site").written
    assert {"index.html", "entries/lstm.html", "badges/lstm.svg", "feed.xml"} <= set(written)


def test_a_build_without_records_is_a_page_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    build([tmp_path / "none"], tmp_path / "site")
    assert "No records yet" in (tmp_path / "site/index.html").read_text(encoding="utf-8")


def test_every_page_has_a_policy_and_no_inline_script_or_style(
    tmp_path: Path, records: Path
) -> None:
    build([records], tmp_path / "site")
    for page in (tmp_path / "site").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "default-src &#39;none&#39;" in text
        assert not re.search(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)", text), page
        assert not re.search(r"<[^>]*\s(style|on\w+)=", text), page
        assert "<style" not in text


def test_build_prints_the_index_last_and_tells_of_refusals_by_its_exit_code(
    tmp_path: Path, records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "site"
    assert main(["build", "--records", str(records), "--out", str(out)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(out / "index.html")
    (records / "bad.json").write_text("{}", encoding="utf-8")
    assert main(["build", "--records", str(records), "--out", str(out)]) == 1
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1] == str(out / "index.html")
    assert "refused bad.json" in printed.err
    assert "bad.json" in (out / "index.html").read_text(encoding="utf-8")


def test_misuse_is_told_apart_from_refusals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", "--records", str(tmp_path / "nowhere"), "--out", str(tmp_path)]) == 2
    assert "records folder" in capsys.readouterr().err


def test_add_and_check_from_the_command_line(
    tmp_path: Path, records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    one = next(iter(sorted(records.glob("whole-*.json"))))
    assert main(["add", str(one), "--results", str(results)]) == 0
    assert main(["check", str(results)]) == 0
    assert "1 usable, 0 refused, 0 without source" in capsys.readouterr().out
    (results / "sources").joinpath(next((results / "sources").iterdir()).name).unlink()
    assert main(["check", str(results)]) == 1
    assert "no such source" in capsys.readouterr().err


def test_the_module_runs_from_anywhere_and_imports_nothing_heavy(
    tmp_path: Path, records: Path
) -> None:
    code = (
        "import sys; from leaderboard.__main__ import main; "
        f"code = main(['build', '--records', {str(records)!r}, '--out', 'site']); "
        "heavy = {'torch', 'wandb', 'pytest', 'fla', 'selectivbench.tasks'}; "
        "heavy.add('selectivbench.training'); "
        "assert not heavy & set(sys.modules), heavy & set(sys.modules); sys.exit(code)"
    )
    root = RESULTS.parent.parent
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(root)!r}); {code}"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == str(tmp_path / "site" / "index.html")


def test_the_committed_results_are_usable() -> None:
    assert main(["check", str(RESULTS)]) == 0
