"""The console script: the task list and the template."""

from __future__ import annotations

from pathlib import Path

import pytest

from selectivbench import __version__
from selectivbench.cli import main
from selectivbench.errors import UsageError
from selectivbench.profiles import PROFILES
from selectivbench.submission import load
from selectivbench.tasks import TASKS
from selectivbench.template import write


def test_tasks_lists_every_task_in_every_profile(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for task in TASKS:
        of_task = [line.split() for line in lines if line.startswith(f"{task.id} ")]
        assert [words[1] for words in of_task] == [p for p in PROFILES if task.variants.get(p)]
        assert f"{task.name}: {task.summary}" in lines


def test_tasks_says_sizes_and_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    main(["tasks"])
    (line,) = (
        text
        for text in capsys.readouterr().out.splitlines()
        if text.split()[:2] == ["selective_copy-v1", "lite"]
    )
    assert line.split()[2:7] == ["base", "1200", "x", "64", "68"]
    assert line.endswith("yes")


def test_new_writes_a_submission_that_can_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.py"
    assert main(["new", str(path)]) == 0
    assert f"--selectiv-model={path}" in capsys.readouterr().out
    submission = load(path)
    assert (submission.kind, submission.name) == ("mixer", "mine")


def test_new_never_overwrites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.py"
    path.write_text("precious")
    assert main(["new", str(path)]) == 2
    assert path.read_text() == "precious"
    error = capsys.readouterr().err
    assert "which exists" in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("name", ["mine", "mine.txt", "my-layer.py", "1st.py", ".py", "a b.py"])
def test_new_refuses_a_name_that_is_none(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"a name such as mine\.py"):
        write(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_new_in_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "mine.py", tmp_path / "missing" / "mine.py"):
        with pytest.raises(UsageError, match="a writable place"):
            write(place)


@pytest.mark.parametrize("arguments", [[], ["dance"], ["new"], ["tasks", "extra"], ["--dance"]])
def test_a_bad_command_line_is_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: selectivbench" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"selectivbench {__version__}\n"


GOOD_DATA = [
    ("show selective_copy --profile smoke", "step     ~ "),
    ("show distractors --variant dense --steps 20", "target "),
    ("show noisy_gaps --profile smoke --svg", "<svg "),
    ("info memorization --profile smoke", '"hash": '),
    ("export mqar --count 5 --out OUT/mqar.npz", "mqar.npz"),
]


@pytest.mark.parametrize(("line", "printed"), GOOD_DATA, ids=[line for line, _ in GOOD_DATA])
def test_data(line: str, printed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", *line.replace("OUT", str(tmp_path)).split()]) == 0
    assert printed in capsys.readouterr().out


BAD_DATA = [
    ("show noisy_gapz", "did you mean 'noisy_gaps'?"),
    ("show mqar --profile lit", "did you mean 'lite'?"),
    ("show mqar --variant pairs9", "pairs8"),
    ("show mqar --seed -1", "seed: got -1, allowed: 0 or more"),
    ("show mqar --index 9999", "test index: got 9999, allowed: 0 to 511"),
    ("export mqar --split tests --out OUT/x.npz", "did you mean 'test'?"),
    ("export mqar --count -1 --out OUT/x.npz", "count: got -1"),
    ("export mqar --format csv --out OUT/x.csv", "npz, parquet"),
    ("export mqar --count 1 --out /proc/none/x.npz", "a writable place"),
]


@pytest.mark.parametrize(("line", "said"), BAD_DATA, ids=[line for line, _ in BAD_DATA])
def test_bad_data(line: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", *line.replace("OUT", str(tmp_path)).split()]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
