"""Figures: the right numbers, marks that differ without colour, everything inside the paper."""

from __future__ import annotations

import csv
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from selectivbench.cli import main
from selectivbench.errors import UsageError
from selectivbench.figures import series
from selectivbench.figures.costs import COSTS, pareto
from selectivbench.figures.lines import draw_lines, draw_scatter
from selectivbench.figures.mechanism import draw_probe, draw_ranges
from selectivbench.figures.page import COLOURS, Drawn, Look, checked_formats, mark
from selectivbench.figures.plotting import KINDS, LINES, chosen, read
from selectivbench.record import Evaluation, Point, Record

LOOKS = [Look(), Look(width=3.25), Look(width=3.25, size=10)]
KIND_NAMES = ("symbol", "filler", "noise", "distractor", "query", "end")


@pytest.fixture
def make(a_record: Record) -> Any:
    """A record of an entry on a task; accuracy may be given by split."""

    def made(entry: str = "lstm", task: str = "selective_copy-v1", seed: int = 1, **more: Any):
        given = ("variant", "profile", "device_class")
        about = {"variant": "base"} | {name: more.pop(name) for name in given if name in more}
        who = replace(a_record.identity, entry=entry, task=task, seed=seed, **about)
        return replace(a_record, identity=who, entry=replace(a_record.entry, id=entry), **more)

    return made


def curve(*accuracies: float) -> tuple[Point, ...]:
    return tuple(Point(100 * (i + 1), 1.0, a) for i, a in enumerate(accuracies))


def splits(*accuracies: float) -> tuple[Evaluation, ...]:
    names = ("test-gap10", "test-gap20", "test-gap50")
    return tuple(Evaluation(n, a, 0.2, 1.0) for n, a in zip(names, accuracies, strict=True))


def points(plot: series.Plot, name: str, panel: int = 0) -> list[tuple[float, ...]]:
    (found,) = [s for s in plot.panels[panel].series if s.name == name]
    return [(p.x, p.y, p.low, p.high, p.seeds) for p in found.points]


def test_a_curve_is_the_mean_of_its_seeds_between_the_least_and_greatest(make: Any) -> None:
    records = [make(seed=1, curve=curve(0.2, 0.6)), make(seed=2, curve=curve(0.4, 1.0))]
    plot = series.curve(records)
    wanted = np.array([(100, 0.3, 0.2, 0.4, 2), (200, 0.8, 0.6, 1.0, 2)])
    assert np.array(points(plot, "lstm")) == pytest.approx(wanted)
    assert points(plot, "floor") == [(100, 0.125, 0.125, 0.125, 2), (200, 0.125, 0.125, 0.125, 2)]
    assert plot.y == "validation accuracy"
    assert plot.title == "Learning curves (lite, cpu)"


def test_sizes_and_machines_never_share_a_panel(make: Any) -> None:
    lite = make(curve=curve(0.2, 0.6))
    paper = make(curve=curve(0.1, 0.2), profile="paper")
    gpu = make(curve=curve(0.1, 0.3), device_class="H200")
    plot = series.curve([lite, paper, gpu])
    assert [(p.title, points(plot, "lstm", i)[-1][1]) for i, p in enumerate(plot.panels)] == [
        ("selective copy", 0.6),
        ("selective copy (H200)", 0.3),
        ("selective copy (paper)", 0.2),
    ]


def test_without_validations_a_curve_is_of_the_loss(make: Any) -> None:
    plot = series.curve([make(curve=(Point(10, 2.0), Point(20, 1.0)))])
    assert (plot.y, points(plot, "lstm")) == (
        "training loss",
        [(10, 2.0, 2.0, 2.0, 1), (20, 1.0, 1.0, 1.0, 1)],
    )


def test_a_training_that_two_tasks_share_is_drawn_once(make: Any) -> None:
    both = [make(task=t, curve=curve(0.5)) for t in ("noisy_gaps-v2", "gap_extrapolation-v2")]
    assert [p.title for p in series.curve(both).panels] == ["noisy gaps v2"]
    assert [p.title for p in series.curve(both[1:]).panels] == ["gap extrapolation v2"]
    other = make(task="gap_extrapolation-v2", variant="long", curve=curve(0.5))
    shown = [p.title for p in series.curve([both[0], other]).panels]
    assert shown == ["noisy gaps v2", "gap extrapolation v2, long"]


def test_difficulty_is_the_number_of_the_variant(make: Any) -> None:
    records = [
        make(task="memorization-v1", variant=f"amb{n}", accuracy=1 - n / 100) for n in (20, 8, 12)
    ]
    plot = series.difficulty([*records, make(task="mqar-v1")])
    wanted = np.array([(8, 0.92), (12, 0.88), (20, 0.8)])
    assert np.array(points(plot, "lstm"))[:, :2] == pytest.approx(wanted)
    assert [p.title for p in plot.panels] == ["memorization"]
    assert plot.x == "ambiguity"


def test_extrapolation_is_the_number_of_the_split(make: Any) -> None:
    gaps = make(task="gap_extrapolation-v1", evaluations=splits(0.9, 0.5, 0.1))
    plot = series.extrapolation([gaps, make()])
    assert [p[:2] for p in points(plot, "lstm")] == [(10, 0.9), (20, 0.5), (50, 0.1)]
    assert [p[:2] for p in points(plot, "ceiling")] == [(10, 1), (20, 1), (50, 1)]
    assert (plot.x, plot.log) == ("blanks in each gap", True)


def test_a_task_with_one_split_has_no_panel_among_others(make: Any) -> None:
    gaps = make(task="gap_extrapolation-v1", evaluations=splits(0.9, 0.5, 0.1))
    one = make(task="noisy_gaps-v2", evaluations=splits(0.9, 0.5, 0.1)[:1])
    assert [p.title for p in series.extrapolation([gaps, one]).panels] == ["gap extrapolation"]


def test_rates_are_compared_on_validation_data_only(make: Any) -> None:
    def at(lr: float, validated: float) -> Record:
        return make(
            seed=round(1 / lr), accuracy=0.0, budget={"budget": {"lr": lr}}, curve=curve(0.1, validated)
        )  # fmt: skip

    plot = series.rates([at(0.003, 0.9), at(0.001, 0.7), at(0.01, 0.2)])
    assert [p[:2] for p in points(plot, "lstm")] == [(0.001, 0.7), (0.003, 0.9), (0.01, 0.2)]
    assert plot.y == "last validation accuracy"


def test_the_front_is_what_nothing_beats_at_its_cost(make: Any) -> None:
    entries = {"a": (10, 0.5), "b": (20, 0.4), "c": (30, 0.9), "d": (30, 0.8), "e": (40, 0.9)}
    records = [make(entry=n, state_size=x, score=y) for n, (x, y) in entries.items()]
    scatter = pareto(records, COSTS["state"])
    assert [dot.name for dot in scatter.front] == ["a", "c"]


def test_a_score_is_of_one_profile_and_of_whole_seeds(make: Any) -> None:
    def suite(entry: str, seed: int) -> list[Record]:
        return [make(entry, task, seed, score=0.1 * seed) for task in ("mqar-v1", "induction-v1")]

    records = [*suite("a", 1), *suite("a", 2), *suite("b", 1), make("b", "mqar-v1", 9, score=0.9)]
    paper = make("a", "mqar-v1", score=0.7, profile="paper")
    found = pareto([*records, paper], COSTS["state"])
    assert {d.name: (d.low, d.high) for d in found.dots} == {"a": (0.1, 0.2), "b": (0.1, 0.1)}
    assert found.title == "Mean score of 2 tasks (lite, cpu)"


def test_a_score_is_the_mean_over_tasks_and_an_entry_without_one_of_them_is_left_out(make: Any):
    tasks = ("selective_copy-v1", "mqar-v1")
    whole = [make(task=t, seed=s, score=0.2 * s + i) for i, t in enumerate(tasks) for s in (1, 2)]
    scatter = pareto([*whole, make(entry="gru", score=1.0)], COSTS["parameters"])
    (dot,) = scatter.dots
    assert (dot.name, dot.x) == ("lstm", 57_000)
    assert (dot.y, dot.low, dot.high) == pytest.approx((0.8, 0.7, 0.9))
    assert scatter.left_out == ("gru",)


@pytest.mark.parametrize("kind", KINDS)
def test_two_records_of_one_case_are_refused(make: Any, kind: str) -> None:
    draw = LINES.get(kind, lambda r: pareto(r, COSTS["state"]))
    if kind != "lr":
        with pytest.raises(UsageError, match="two of lstm on selective copy, seed 1"):
            draw([make(), make(accuracy=0.5)])


@pytest.mark.parametrize("kind", ["difficulty", "extrapolation", "lr"])
def test_one_point_is_no_line(make: Any, kind: str) -> None:
    with pytest.raises(UsageError, match="2 or more; give"):
        LINES[kind]([make(budget={"budget": {"lr": 0.1}})])


def texts(drawn: Drawn) -> list[Any]:
    """Every text that is seen, with its box; the figure is laid out first."""
    from matplotlib.text import Text

    drawn.figure.canvas.draw()
    found = drawn.figure.findobj(Text)
    return [t for t in found if isinstance(t, Text) and t.get_visible() and t.get_text().strip()]


def inside(drawn: Drawn) -> None:
    """No text leaves the paper, and none is smaller than can be read."""
    seen = texts(drawn)
    width, height = drawn.figure.get_size_inches()
    taken = drawn.figure.get_tightbbox()
    assert -0.03 <= taken.x0 <= taken.x1 <= width + 0.03
    assert -0.03 <= taken.y0 <= taken.y1 <= height + 0.03
    assert min(text.get_fontsize() for text in seen) >= 4.9


def many(make: Any) -> series.Plot:
    """As many tasks and entries as the benchmark has."""
    tasks = ["selective_copy", "memorization", "noisy_gaps", "distractors", "mqar"]
    return series.curve(
        [
            make(entry=f"an_entry_{i:02}", task=f"{task}-v1", curve=curve(0.2, 0.3 + i / 40))
            for i in range(17)
            for task in tasks
        ]
    )


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_lines_stay_on_the_paper(make: Any, look: Look) -> None:
    drawn = draw_lines(many(make), look)
    inside(drawn)
    assert drawn.figure.get_figwidth() == look.width
    (legend,) = drawn.figure.legends
    assert [t.get_text() for t in legend.get_texts()] == [
        *(f"an_entry_{i:02}" for i in range(17)), "floor", "ceiling"
    ]  # fmt: skip
    titles = [ax.get_title(loc="left") for ax in drawn.figure.axes]
    assert titles == ["selective copy", "memorization", "noisy gaps", "distractors", "mqar"]


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_names_of_a_scatter_touch_nothing(make: Any, look: Look) -> None:
    rng = np.random.default_rng(0)
    records = [
        make(
            entry=f"entry_{i:02}", state_size=int(10 ** rng.uniform(1, 5)), score=rng.uniform(0, 1)
        )
        for i in range(17)
    ]
    drawn = draw_scatter(pareto(records, COSTS["state"]), look)
    inside(drawn)
    named = [t.get_window_extent() for t in texts(drawn) if t.get_text().startswith("entry_")]
    assert len(named) >= 12
    assert not any(a.overlaps(b) for a, b in combinations(named, 2))


def test_no_two_of_a_hundred_entries_look_alike() -> None:
    looks = {(m["color"], m["marker"], str(m["linestyle"])) for m in map(mark, range(100))}
    assert len(looks) == 100


def test_neighbours_differ_in_marker_and_dash_where_there_is_no_colour() -> None:
    for place in range(20):
        one, two = mark(place), mark(place + 1)
        assert one["marker"] != two["marker"]
        assert one["linestyle"] != two["linestyle"]


def test_colours_are_dark_enough_for_white_paper() -> None:
    def channel(text: str) -> float:
        value = int(text, 16) / 255
        return value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4

    for colour in COLOURS:
        red, green, blue = (channel(colour[i : i + 2]) for i in (1, 3, 5))
        assert 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05) >= 2.0


def probe_arrays(steps: int, attention: bool) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    kinds = np.where(np.arange(steps) % 7 == 3, 0, 1) * np.ones((2, 1), dtype=int)
    kinds[:, -4:] = 4
    values = rng.normal(size=(2, steps, 5)) + (kinds == 0)[..., None]
    edges = np.histogram_bin_edges(values, 10)
    gate = {
        "trace": values.mean(axis=2),
        "means": np.stack(
            [values[kinds == k].mean(0) if (kinds == k).any() else [np.nan] * 5 for k in range(6)]
        ),
        "counts": np.stack([np.histogram(values[kinds == k], edges)[0] for k in range(6)]),
        "edges": edges,
    }
    arrays = {f"{i}/Δ/{name}": array for i in (0, 1) for name, array in gate.items()}
    if attention:
        arrays["0/Δ/distances"] = rng.dirichlet(np.ones(steps), 2)
    return {"tokens": np.where(kinds == 0, 3, 0), "kinds": kinds, **arrays}


@pytest.mark.parametrize("look", LOOKS, ids=str)
@pytest.mark.parametrize("steps", [20, 68, 300])
def test_the_figures_of_a_probe_stay_on_the_paper(look: Look, steps: int) -> None:
    arrays = probe_arrays(steps, attention=True)
    found = draw_probe("mamba on selective copy", arrays, KIND_NAMES, ("~", "0", "1", "2"), look)
    assert list(found) == ["gates", "distributions", "channels", "distances"]
    for drawn in found.values():
        inside(drawn)


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_the_ranges_of_a_probe_in_a_record_are_drawn_kind_by_kind(look: Look) -> None:
    kinds = {
        kind: {"steps": 10 * (i + 1), "quantiles": [i, i + 1, i + 2, i + 3, i + 4]}
        for i, kind in enumerate(("symbol", "filler", "query"))
    }
    signals = [{"layer": f"{i}", "name": "in-context rate a", "kinds": kinds} for i in range(5)]
    drawn = draw_ranges("rwkv7 on selective copy", signals, look)
    inside(drawn)
    assert len(drawn.rows) == 5 * 3
    assert drawn.rows[1] == ("layer 0/in-context rate a", "filler", 20, 1, 2, 3, 4, 5)
    labels = [t.get_text() for t in drawn.figure.axes[0].get_yticklabels()]
    assert labels == ["symbol", "filler", "query"]


def test_a_signals_name_is_no_formula(tmp_path: Path) -> None:
    arrays = {
        name.replace("Δ", r"$\foo$"): array
        for name, array in probe_arrays(20, attention=False).items()
    }
    for name, drawn in draw_probe("t", arrays, KIND_NAMES, ("~", "0", "1", "2"), Look()).items():
        drawn.save(tmp_path, name, ["svg"])
    assert len(list(tmp_path.glob("*.svg"))) == 3


def test_the_gates_are_drawn_over_the_sequence_that_is_written_below() -> None:
    arrays = probe_arrays(20, attention=False)
    found = draw_probe("t", arrays, KIND_NAMES, ("~", "0", "1", "2"), Look())
    assert "distances" not in found
    rows = found["gates"].rows
    assert rows[3][:4] == ("layer 0/Δ", 3, "2", "symbol")
    assert rows[3][4] == pytest.approx(arrays["0/Δ/trace"][0, 3])
    assert rows[19][3] == "query"
    last = found["gates"].figure.axes[-1]
    assert [t.get_text() for t in last.get_xticklabels()] == list("~~~2~~~~~~2~~~~~~~~~")
    shares = [row for row in found["channels"].rows if row[:3] == ("layer 1/Δ", "filler", 2)]
    assert shares == [("layer 1/Δ", "filler", 2, pytest.approx(arrays["1/Δ/means"][1, 2]))]
    counted = sum(row[4] for row in found["distributions"].rows if row[0] == "layer 0/Δ")
    assert counted == 2 * 20 * 5


def test_attention_adds_up_to_all_of_its_weight() -> None:
    found = draw_probe("t", probe_arrays(20, attention=True), KIND_NAMES, (), Look())["distances"]
    assert found.rows[19] == ("layer 0/Δ head 0", 19, pytest.approx(1.0))


def test_arrays_without_a_signal_are_refused() -> None:
    with pytest.raises(UsageError, match="probe with --out"):
        draw_probe("t", {"tokens": np.zeros((1, 3))}, KIND_NAMES, (), Look())


@pytest.fixture
def folder(tmp_path: Path, make: Any) -> Path:
    records = tmp_path / "records"
    records.mkdir()
    for entry in ("lstm", "s4d"):
        for seed in (1, 2):
            record = make(
                entry, "gap_extrapolation-v1", seed, evaluations=splits(0.9, 0.5, 0.1 * seed)
            )
            (records / f"{record.identity.stem}.json").write_text(record.to_json())
    return records


def test_plot_writes_vectors_and_the_numbers_beside_them(folder, tmp_path, capsys) -> None:
    args = ["--kind", "extrapolation", "--out", str(tmp_path / "a"), "--format", "svg,pdf,png"]
    assert main(["plot", str(folder), *args]) == 0
    told = capsys.readouterr().out.split()
    assert told == [
        str(tmp_path / "a" / f"extrapolation.{k}") for k in ("svg", "pdf", "png", "csv")
    ]
    root = ET.parse(told[0]).getroot()
    assert root.tag.endswith("svg")
    assert not root.findall(".//{*}image"), "a picture of dots in a vector file"
    assert Path(told[1]).read_bytes().startswith(b"%PDF")
    with Path(told[3]).open() as file:
        rows = list(csv.DictReader(file))
    assert rows[2] == {
        "panel": "gap extrapolation", "series": "lstm", "blanks in each gap": "50.0",
        "accuracy": "0.15000000000000002", "least": "0.1", "greatest": "0.2", "seeds": "2",
    }  # fmt: skip
    again = [*args[:3], str(tmp_path / "b"), *args[4:]]
    assert main(["plot", str(folder), *again]) == 0
    for name in ("svg", "pdf", "png", "csv"):
        one, two = (tmp_path / part / f"extrapolation.{name}" for part in "ab")
        assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--kind", "curv"], "did you mean 'curve'"),
        (["--kind", "curve", "--format", "sgv"], "did you mean 'svg'"),
        (["--kind", "pareto", "--cost", "second"], "did you mean 'seconds'"),
        (["--kind", "curve", "--tasks", "gap_extrapolatoin"], "did you mean 'gap_extrapolation'"),
        (["--kind", "curve", "--entries", "s5d"], "did you mean 's4d'"),
        (["--kind", "curve", "--width", "0"], "width: got 0.0, allowed: 1.5 to 40 inches"),
        (["--kind", "curve", "--font-size", "99"], "font size: got 99.0, allowed: 4 to 40 points"),
        (["--kind", "lr"], "learning rates: got 0, allowed: 2 or more"),
    ],
)
def test_a_bad_argument_is_one_sentence(folder, capsys, tmp_path, arguments, words) -> None:
    assert main(["plot", str(folder), "--out", str(tmp_path / "out"), *arguments]) == 2
    told = capsys.readouterr().err
    assert words in told
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_no_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(UsageError, match=r"x\.json"):
        read([tmp_path])


def test_some_tasks_and_entries_can_be_chosen(make: Any) -> None:
    records = [make(e, t) for e in ("lstm", "gru") for t in ("mqar-v1", "selective_copy-v1")]
    assert chosen(records, (), ()) == records
    (one,) = chosen(records, ("mqar",), ("gru",))
    assert (one.identity.entry, one.identity.task) == ("gru", "mqar-v1")


def test_formats_are_taken_once_each() -> None:
    assert checked_formats("svg,pdf,svg,") == ("svg", "pdf")


def test_matplotlib_is_loaded_when_something_is_drawn_and_not_before() -> None:
    modules = ["cli", "figures.lines", "figures.mechanism", "figures.plotting"]
    code = "; ".join(f"import selectivbench.{name}" for name in modules)
    code = f"{code}; import sys; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_without_matplotlib_the_extra_is_named(monkeypatch: Any, make: Any) -> None:
    monkeypatch.setattr("selectivbench.figures.page.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'selectivbench\[figures\]'"):
        draw_lines(series.curve([make()]), Look())


def test_matplotlib_stands_in_one_room() -> None:
    root = Path(__file__).parents[2]
    rooms = [root / name for name in ("selectivbench", "pytest_selectivbench", "leaderboard")]
    sources = [path for room in rooms for path in room.rglob("*.py")]
    found = {path.parent.name for path in sources if "import matplotlib" in path.read_text()
             or "from matplotlib" in path.read_text()}  # fmt: skip
    assert found == {"figures"}
