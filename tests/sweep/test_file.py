"""Sweep files: what they say, and one sentence for each way to get them wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from selectivbench.errors import UsageError
from selectivbench.sweep import file
from selectivbench.sweep.grid import cells, count
from tests.sweep.conftest import TINY

Write = Callable[..., Path]

WHOLE = """
task = "noisy_gaps"
profile = "lite"
submissions = ["linear.py", "twin.py"]
seeds = [4, 7]
save = true

[fixed]
layers = 2
d_state = 32

[submission.twin]
d_state = 64

[grid]
width = [32, 64]

[random]
draws = 3
seed = 5
lr = { low = 1e-4, high = 1e-2, scale = "log" }
heads = { choices = [1, 2] }

[choose]
axes = ["lr", "heads"]
by = "best_validation"
"""


def test_every_part_of_a_file(sweep_file: Write) -> None:
    sweep = file.read(sweep_file(WHOLE, "whole.toml"))
    assert (sweep.name, sweep.task, sweep.profile) == ("whole", "noisy_gaps", "lite")
    assert [path.stem for path in sweep.submissions] == ["linear", "twin"]
    assert sweep.axes == ("width", "lr", "heads")
    assert sweep.choice == file.Choice(("lr", "heads"), "best_validation")
    assert count(sweep) == 2 * 2 * 3 * 2


def test_cells_are_every_combination_once(sweep_file: Write) -> None:
    sweep = file.read(sweep_file(WHOLE, "whole.toml"))
    found = list(cells(sweep))
    assert len({(str(cell), cell.draw) for cell in found}) == len(found) == count(sweep)
    assert {cell.sizes["d_state"] for cell in found if cell.submission.stem == "linear"} == {32}
    assert {cell.sizes["d_state"] for cell in found if cell.submission.stem == "twin"} == {64}
    assert all(1e-4 <= float(cell.sizes["lr"]) <= 1e-2 for cell in found)


def test_draws_are_the_same_for_every_seed_and_submission_and_in_every_process(
    sweep_file: Write,
) -> None:
    found = list(cells(file.read(sweep_file(WHOLE, "whole.toml"))))
    rates = {(cell.draw, cell.varied["lr"]) for cell in found}
    assert len(rates) == 3
    assert (0, 0.00234487) in rates  # pinned: another value would be another sweep


def test_a_new_random_axis_leaves_the_draws_of_the_others(sweep_file: Write) -> None:
    before = list(cells(file.read(sweep_file(WHOLE, "whole.toml"))))
    more = WHOLE.replace("[random]", "[random]\ndropout = { low = 0.0, high = 0.3 }")
    after = list(cells(file.read(sweep_file(more, "whole.toml"))))
    assert [cell.varied["lr"] for cell in before] == [cell.varied["lr"] for cell in after]


def test_seeds_and_profile_have_defaults(sweep_file: Write) -> None:
    sweep = file.read(sweep_file('task = "mqar"\nsubmissions = ["linear.py"]'))
    assert (sweep.profile, sweep.seeds, count(sweep)) == ("lite", (1, 2, 3), 3)


BAD = [
    ('task = "selective_copy"', 'tsk = "selective_copy"', "did you mean 'task'?"),
    ('task = "selective_copy"', 'task = "selectiv_copy"', "did you mean 'selective_copy'?"),
    ('profile = "smoke"', 'profile = "smok"', "did you mean 'smoke'?"),
    ("linear.py", "linar.py", "linear.py"),
    ('submissions = ["linear.py"]', "submissions = []", "a list of files or folders"),
    ("seeds = [1, 2]", "seeds = [1, 1]", "seed: got '1 twice', allowed: each once"),
    ("seeds = [1, 2]", "seeds = [-1]", "whole numbers, 0 or more"),
    ("seeds = [1, 2]", "save = 1", "save: got 1, allowed: a bool"),
    ("seeds = [1, 2]", 'reuse = "other.toml"', "a sweep file that trains with `save = true`"),
    ("[grid]\nlr", "[grid]\nlrr", "did you mean 'lr'?"),
    ("lr = [1e-3, 1e-2]", "", "grid: got 'no axis'"),
    ("lr = [1e-3, 1e-2]", "lr = []", "a list with at least one value"),
    ("lr = [1e-3, 1e-2]", "lr = [7]", "lr: got 7, allowed: a number, 1e-06 to 1"),
    ("lr = [1e-3, 1e-2]", "lr = [1e-3, 0.001]", "grid lr: got '0.001 twice'"),
    ("lr = [1e-3, 1e-2]", "width = [16]", "axis: got 'width twice'"),
    ("lr = [1e-3, 1e-2]", 'variant = ["bas"]', "did you mean 'base'?"),
    ("lr = [1e-3, 1e-2]", 'evaluation = ["tst"]', "did you mean 'test'?"),
    ("[fixed]\nwidth = 16", "[fixed]\nwidth = 16.5", "width: got 16.5, allowed: a whole number"),
    ("[fixed]", "[submission.linar]\nd_state = 3\n[fixed]", "did you mean 'linear'?"),
    ("[fixed]", "[submission.linear]\nlr = 0.1\n[fixed]", "axis: got 'lr twice'"),
    ("[choose]", "[random]\nlayers = { low = 1, high = 2 }\n[choose]", "random draws: got None"),
    ("[choose]", "[random]\ndraws = 2\n[choose]", "random: got 'no axis'"),
    ("[choose]", "[random]\ndraws = 2\nlayers = 3\n[choose]", "random layers: got 3"),
    (
        "[choose]",
        "[random]\ndraws = 2\nlayers = { low = 3, high = 2 }\n[choose]",
        "numbers low and high with low < high",
    ),
    (
        "[choose]",
        '[random]\ndraws = 2\ndropout = { low = 0.0, high = 0.5, scale = "log" }\n[choose]',
        "more than 0 on a log scale",
    ),
    (
        "[choose]",
        '[random]\ndraws = 2\nlayers = { low = 1, high = 2, scale = "lg" }\n[choose]',
        "did you mean 'log'?",
    ),
    (
        "[choose]",
        "[random]\ndraws = 2\nlayers = { low = 0, high = 2 }\n[choose]",
        "layers: got 0",
    ),
    ('axes = ["lr"]', 'axes = ["width"]', "choose axes: got 'width', allowed: lr"),
    ('axes = ["lr"]', 'axes = ["lr"]\nby = "test"', "a choice never looks at the test set"),
    ('axes = ["lr"]', 'axs = ["lr"]', "did you mean 'axes'?"),
    ("[choose]", "[choose", "not TOML"),
]


@pytest.mark.parametrize(("old", "new", "said"), BAD, ids=[bad[1][:40] for bad in BAD])
def test_a_bad_file_is_one_sentence(sweep_file: Write, old: str, new: str, said: str) -> None:
    assert old in TINY
    path = sweep_file(TINY.replace(old, new))
    with pytest.raises(UsageError) as caught:
        file.read(path)
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_file_that_is_not_there_names_its_neighbour(sweep_file: Write) -> None:
    path = sweep_file()
    with pytest.raises(UsageError, match=r"did you mean .*tiny\.toml"):
        file.read(path.with_name("tiny.tml"))
