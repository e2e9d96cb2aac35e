"""Charts: numbers in their place, files that stand alone, and the right numbers behind them."""

from __future__ import annotations

import csv
import io
import re
from itertools import pairwise
from math import isfinite
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard import charts, svg
from leaderboard.bars import Bars, bars
from leaderboard.charts import Axes, Dot, Line, Panel
from leaderboard.render import build
from leaderboard.svg import Scale
from leaderboard.view import HERE
from tests.leaderboard import made

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def inside(drawn: svg.Svg) -> bool:
    """Whether every number of every path is finite and near the drawing."""
    for node in drawn.root.iter():
        for name in ("d", "x", "y"):
            if not all(isfinite(float(v)) for v in NUMBER.findall(node.get(name, ""))):
                return False
            if "nan" in node.get(name, "") or "inf" in node.get(name, ""):
                return False
    return True


@given(st.floats(1e-6, 1e12), st.floats(1.0001, 1e6))
def test_log_ticks_lie_inside_and_there_are_at_least_two(low: float, ratio: float) -> None:
    ticks = svg.log_ticks(low / 1.6, low * ratio * 1.6)
    assert len(ticks) >= 2
    assert all(low / 1.61 <= t <= low * ratio * 1.61 for t in ticks)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_linear_ticks_are_inside_few_and_apart(low: float, length: float) -> None:
    ticks = svg.ticks(low, low + length)
    assert 1 <= len(ticks) <= 8
    assert all(low - length * 1e-6 <= t <= low + length * (1 + 1e-6) for t in ticks)
    assert ticks == sorted(set(ticks))


def test_a_scale_puts_its_ends_where_they_belong() -> None:
    linear, log = Scale(0, 2, 10, 110), Scale(1, 100, 10, 110, log=True)
    assert [linear(v) for v in (0, 1, 2)] == [10, 60, 110]
    assert [log(v) for v in (1, 10, 100)] == pytest.approx([10, 60, 110])


@given(
    st.lists(
        st.tuples(st.floats(1, 1e15), st.floats(-5, 1), st.one_of(st.none(), st.floats(0, 1))),
        min_size=1,
        max_size=30,
    )
)
def test_any_dots_give_a_drawing_of_finite_numbers(
    rows: list[tuple[float, float, float | None]],
) -> None:
    dots = [Dot(f"<{i}>", x, y, half) for i, (x, y, half) in enumerate(rows)]
    drawn = charts.scatter("label", dots, Axes("x", "y", log=True), front=True)
    assert inside(drawn)
    assert drawn.alone() == charts.scatter("label", dots, Axes("x", "y", True), True).alone()


def test_the_front_keeps_what_nothing_beats() -> None:
    dots = [
        Dot("a", 1, 0.5),
        Dot("b", 2, 0.4),
        Dot("c", 3, 0.9),
        Dot("d", 3, 0.8),
        Dot("e", 4, 0.9),
    ]
    assert [d.name for d in charts.pareto(dots)] == ["a", "c"]


@pytest.mark.parametrize("count", [1, 2, 10])
def test_panels_of_any_number_have_a_line_each(count: int) -> None:
    line = Line("seed 1", ((1.0, 0.2), (2.0, 0.4)))
    parts = [Panel(f"task {i}", (line,)) for i in range(count)]
    drawn = charts.panels("label", parts, Axes("step", "accuracy"))
    lines = [n for n in drawn.root.iter() if n.get("class", "").startswith("ln")]
    assert len(lines) == count
    assert inside(drawn)


def test_names_on_a_scatter_do_not_cover_each_other() -> None:
    dots = [Dot(f"entry {i}", 1000, 0.5 + i / 1000) for i in range(60)]
    drawn = charts.scatter("label", dots, Axes("x", "y", log=True))
    names = [n for n in drawn.root.iter("text") if (n.text or "").startswith("entry")]
    assert 1 <= len(names) < 60
    rows = sorted((n.get("text-anchor", "start"), float(n.get("y", "0"))) for n in names)
    for (a, y1), (b, y2) in pairwise(rows):
        assert a != b or y2 - y1 >= 8


def test_control_characters_cannot_break_a_drawing() -> None:
    drawn = charts.scatter("a\x00b", [Dot("n\x1b\ufffe", 1, 1)], Axes("x", "y", log=True))
    ET.fromstring(drawn.alone())


def test_the_page_has_the_shapes_that_a_saved_file_has() -> None:
    page = (HERE / "static/site.css").read_text(encoding="utf-8")
    assert svg.SHAPES.strip() in page, "copy SHAPES of leaderboard/svg.py into static/site.css"
    for theme in svg.STYLE.split("@media"):
        for name, colour in re.findall(r"--(c\d):(#\w+)", theme):
            assert f"--{name}: {colour}" in page


@pytest.fixture
def site(tmp_path: Path) -> Path:
    records = made.suite("lstm", 0.8)
    for variant, score in (("amb8", 0.9), ("amb12", 0.7), ("amb20", 0.5)):
        records += [
            made.record("lstm", "memorization-v1", seed, score, variant=variant) for seed in (1, 2)
        ]
    records += [made.record("lstm", "gap_extrapolation-v2", 1, 0.3, variant="base")]
    build([made.write(tmp_path / "records", records)], tmp_path / "site")
    return tmp_path / "site"


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


def test_every_chart_of_a_page_can_be_saved_as_svg_and_csv(site: Path) -> None:
    page = (site / "entries/lstm.html").read_text(encoding="utf-8")
    saved = re.findall(r'href="../(charts/[^"]+)" download', page)
    assert len(saved) == 2 * page.count('<figure class="chart"') == 10
    for path in saved:
        if path.endswith(".svg"):
            root = ET.parse(site / path).getroot()
            assert root.find("{http://www.w3.org/2000/svg}style") is not None
        else:
            assert rows(site / path)


def test_the_numbers_of_a_chart_are_those_of_the_records(site: Path) -> None:
    ambiguity = rows(site / "charts/lstm-lite-cpu-ambiguity.csv")
    assert [(r["ambiguity"], round(float(r["accuracy"]), 6)) for r in ambiguity] == [
        ("8", 0.92),
        ("12", 0.76),
        ("20", 0.6),
    ]
    for variant, score in (("-long", 0.8), ("", 0.3)):  # no line joins two trainings
        gaps = rows(site / f"charts/lstm-lite-cpu-gaps{variant}.csv")
        assert [r["gap_length"] for r in gaps] == ["10", "20", "40"]
        task = rows(site / f"charts/gap_extrapolation-v2-lite-gaps{variant}.csv")
        assert [(r["entry"], r["gap_length"]) for r in task] == [
            ("LSTM", g) for g in ("10", "20", "40")
        ]
        assert float(gaps[0]["accuracy"]) == pytest.approx(0.2 + 0.8 * score)
    curves = rows(site / "charts/lstm-lite-cpu-curves.csv")
    assert len(curves) == 19 * 4
    (cost,) = rows(site / "charts/parameters.csv")
    assert float(cost["overall"]) == pytest.approx(0.8)
    assert cost["parameters"] == "57000"


BINS = st.lists(
    st.tuples(st.text(max_size=12), st.floats(0, 1), st.integers(0, 10**6)), max_size=70
)


@given(st.lists(BINS, min_size=1, max_size=8))
def test_any_bars_give_a_drawing_inside_its_frame(panels: list[list[tuple[str, float, int]]]):
    parts = [Bars(f"<{i}>", "axis", tuple(row)) for i, row in enumerate(panels)]
    drawn = bars("label", parts)
    assert inside(drawn)
    found = list(drawn.root.iter("rect"))
    assert len(found) == sum(map(len, panels))
    for node in found:
        x, y, wide, high = (float(node.get(name, "")) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + wide <= drawn.width
        assert 0 <= y <= y + high <= drawn.height
        assert min(wide, high) >= 0


def test_the_height_of_a_bar_is_its_share_and_few_elements_are_pale() -> None:
    drawn = bars("label", [Bars("a", "x", (("1", 1.0, 900), ("2", 0.5, 29), ("3", 0.0, 30)))])
    one, half, none = (float(n.get("height", "")) for n in drawn.root.iter("rect"))
    assert (half, none) == (one / 2, 0)
    assert [n.get("class") for n in drawn.root.iter("rect")] == ["col", "col pale", "col"]


def test_names_of_bins_that_would_touch_are_left_out() -> None:
    row = tuple((f"{i}00-{i}99", 0.5, 100) for i in range(1, 9))
    texts = [n.text for n in bars("label", [Bars("a", "x", row)]).root.iter("text")]
    assert "100-199" in texts
    assert 2 <= sum(name in texts for name, *_ in row) < len(row)
