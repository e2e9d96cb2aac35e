"""Submission files: found, read, and refused without being run."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from selectivbench.errors import SubmissionError, UsageError
from selectivbench.submission import (
    FUNCTIONS,
    LARGEST_FILE,
    LITERALS,
    TRAIN_BOUNDS,
    Submission,
    find_files,
    load,
)

MIXER = "class Mixer: ...\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mine.py"


def read(file: Path, text: str | bytes) -> Submission:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(file)


def test_what_a_file_may_declare_is_pinned() -> None:
    assert LITERALS == ("NAME", "PAPER", "AUTHORS", "TAGS", "TRAIN", "EXPECTED_FAIL")
    assert FUNCTIONS == ("Mixer", "Model", "state_size", "probe")
    assert dict(TRAIN_BOUNDS) == {"lr": (1e-5, 1e-1)}


def test_every_literal_is_read(file: Path) -> None:
    got = read(
        file,
        """
import torch.nn as nn
from fla.layers import GLA
NAME = "Mein Löwe"
PAPER: str = "https://example.org"
AUTHORS = "A, B"
TAGS = ["gated", "linear"]
TRAIN = {"lr": 0.01}
EXPECTED_FAIL = ("selective_copy-v1",)
def Mixer(spec):
    import numpy
def state_size(spec): return 1
def probe(module, x): return {}
""",
    )
    assert (got.id, got.kind, got.name) == ("mine", "mixer", "Mein Löwe")
    assert (got.paper, got.authors) == ("https://example.org", "A, B")
    assert (got.tags, got.expected_fail) == (("gated", "linear"), ("selective_copy-v1",))
    assert dict(got.train) == {"lr": 0.01}
    assert got.imports == {"torch", "fla", "numpy"}
    assert got.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_bare_file_has_defaults(file: Path) -> None:
    got = read(file, MIXER)
    assert (got.name, got.paper, got.authors, got.tags, got.expected_fail) == (
        "mine",
        "",
        "",
        (),
        (),
    )
    assert dict(got.train) == {}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("class Mixer: ...", "mixer"),
        ("def Mixer(spec): ...", "mixer"),
        ("Mixer = lambda spec: None", "mixer"),
        ("Mixer: object = print", "mixer"),
        ("from x import Mamba as Mixer", "mixer"),
        ("from x import Model", "model"),
        ("class Model: ...\nclass Block: ...\nTAGGED = 1\nNAMING = 2", "model"),
        ("class Mixer: ...\nclass Mixers: ...", "mixer"),  # a helper beside the real thing
        ("class Mixer: ...\nTRAIN = {'lr': 1e-5}", "mixer"),
        ("class Mixer: ...\nTRAIN = {'lr': 1e-1}", "mixer"),
        ("class Mixer: ...\nTRAIN = {}", "mixer"),
        ("class Mixer: ...\nNAME: str", "mixer"),
    ],
)
def test_a_good_file(file: Path, text: str, kind: str) -> None:
    assert read(file, text).kind == kind


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\nclass Mixer(:\n", r"mine\.py \(line 2\): not valid Python"),
        ("class Mixer: ...\n\x00", "not valid Python"),
        ("x = " + "(" * 500 + ")" * 500, "not valid Python"),
        ("", "neither Mixer nor Model.*exactly one of"),
        ("def mixer(spec): ...", "neither Mixer nor Model"),
        ("if True:\n    class Mixer: ...", "neither Mixer nor Model"),
        ("class Mixer: ...\nclass Model: ...", "Mixer and Model.*exactly one"),
        (MIXER + "NAMES = 'x'", r"NAMES is no option of a submission; did you mean NAME\?"),
        ("class Mixxer: ...", r"Mixxer is no option.* mean Mixer\?"),
        (MIXER + "TAG = []", "mean TAGS"),
        (MIXER + "EXPECT_FAIL = []", "mean EXPECTED_FAIL"),
        (MIXER + "def state_sizes(spec): ...", "mean state_size"),
        (MIXER + "NAME = input()", "NAME must be a literal, since it is read without running"),
        (MIXER + "TAGS = ['a'] * 2", "TAGS must be a literal"),
        (MIXER + "TRAIN = {**x}", "TRAIN must be a literal"),
        (MIXER + "TRAIN = dict(lr=1e-3)", "TRAIN must be a literal"),
        (MIXER + "NAME = 3", "NAME: got 3, allowed: one line of text"),
        (MIXER + "NAME = 'two\\nlines'", "one line of text"),
        (MIXER + f"NAME = {'x' * 301!r}", "300 characters"),
        (MIXER + "PAPER = b'x'", "PAPER: got"),
        (MIXER + "AUTHORS = ['A', 'B']", "AUTHORS: got"),
        (MIXER + "TAGS = 'gated'", "TAGS: got 'gated', allowed: a list of strings"),
        (MIXER + "EXPECTED_FAIL = [1]", r"EXPECTED_FAIL: got \[1\]"),
        (MIXER + "EXPECTED_FAIL = {'a': 1}", "EXPECTED_FAIL: got"),
        (MIXER + "TRAIN = 3", "TRAIN: got 3, allowed: a dict"),
        (MIXER + "TRAIN = {'lrr': 1e-3}", r"TRAIN key: got 'lrr'.*did you mean 'lr'\?"),
        (MIXER + "TRAIN = {1: 1e-3}", "TRAIN key: got 1"),
        (MIXER + "TRAIN = {'steps': 9}", "TRAIN key: got 'steps', allowed: dtype, lr"),
        (MIXER + "TRAIN = {'lr': 0.2}", r"TRAIN\['lr'\]: got 0\.2, allowed: 1e-05 to 0\.1"),
        (MIXER + "TRAIN = {'lr': 0}", "TRAIN"),
        (MIXER + "TRAIN = {'lr': -1e-3}", "TRAIN"),
        (MIXER + "TRAIN = {'lr': 1e999}", "TRAIN"),
        (MIXER + "TRAIN = {'lr': '1e-3'}", "TRAIN"),
        (MIXER + "TRAIN = {'lr': True}", "TRAIN"),
        (MIXER + "TRAIN = {'lr': None}", "TRAIN"),
        (MIXER + "TRAIN = {'dtype': 'bfloat'}", r"TRAIN\['dtype'\]: got 'bfloat'.*'bfloat16'"),
        (MIXER + "TRAIN = {'dtype': [16]}", r"TRAIN\['dtype'\]: got \[16\]"),
    ],
)
def test_a_bad_file_gets_its_reason(file: Path, text: str, words: str) -> None:
    with pytest.raises(SubmissionError, match=words) as caught:
        read(file, text)
    assert str(file) in str(caught.value)


def test_a_file_that_is_not_utf_8(file: Path) -> None:
    with pytest.raises(SubmissionError, match=r"not UTF-8 text \(byte 8\); save it as UTF-8"):
        read(file, b"NAME = '\xe9'\n")


def test_an_oversized_file(file: Path) -> None:
    whole = MIXER + "#" * (LARGEST_FILE - len(MIXER))
    assert read(file, whole).kind == "mixer"
    with pytest.raises(SubmissionError, match=r"size in bytes: got 262145.*weights do not belong"):
        read(file, whole + "#")


def test_nothing_is_run(file: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    read(file, f"open({str(trace)!r}, 'w').close()\nraise SystemExit\n{MIXER}")
    assert not trace.exists()


def test_files_and_folders_are_found_sorted_by_stem(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    for name in ("many/b.py", "many/_helper.py", "many/notes.txt", "many/c.py", "a.py"):
        (tmp_path / name).write_text("")
    found = find_files([tmp_path / "many", tmp_path / "a.py", tmp_path / "many" / "c.py"])
    assert [str(p.relative_to(tmp_path)) for p in found] == ["a.py", "many/b.py", "many/c.py"]


def test_a_missing_file_names_the_near_one(tmp_path: Path) -> None:
    (tmp_path / "lstm.py").write_text("")
    with pytest.raises(UsageError, match=r"did you mean '.*/lstm\.py'\?"):
        find_files([tmp_path / "lsmt.py"])


def test_a_missing_file_in_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"allowed: an existing \.py file"):
        find_files([tmp_path / "nowhere" / "x.py"])


def test_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "_private.py").write_text("")
    with pytest.raises(UsageError, match=r"a folder with \*\.py files"):
        find_files([tmp_path])


def test_two_files_with_one_stem(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "lstm.py").write_text("")
    with pytest.raises(UsageError, match=r"two submissions are called 'lstm'.*rename one"):
        find_files([tmp_path / "one", tmp_path / "two"])
