"""The tree of exceptions, and the sentences they carry."""

from __future__ import annotations

from typing import get_args

import pytest

from selectivbench import errors
from selectivbench.errors import explain, near

TREE = {
    errors.UsageError: errors.SelectivError,
    errors.SubmissionError: errors.SelectivError,
    errors.RecordError: errors.SelectivError,
    errors.EvidenceError: errors.SelectivError,
    errors.ChildError: errors.SelectivError,
    errors.ChildFailed: errors.ChildError,
    errors.ChildOutOfMemory: errors.ChildError,
    errors.ChildTimeout: errors.ChildError,
    errors.ChildCrashed: errors.ChildError,
    errors.ProtocolError: errors.ChildError,
}


def test_tree_is_complete() -> None:
    defined = {
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert defined == {errors.SelectivError, *TREE}


@pytest.mark.parametrize(("child", "parent"), TREE.items(), ids=lambda cls: cls.__name__)
def test_each_error_hangs_under_its_parent(child: type, parent: type) -> None:
    assert parent in child.__bases__


def test_the_docstring_draws_every_error() -> None:
    assert errors.__doc__ is not None
    assert all(cls.__name__ in errors.__doc__ for cls in TREE)


def test_usage_errors_are_value_errors() -> None:
    with pytest.raises(ValueError, match="bad"):
        raise errors.UsageError("bad")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.ChildError, "error"),
        (errors.ChildFailed, "error"),
        (errors.ChildOutOfMemory, "oom"),
        (errors.ChildTimeout, "timeout"),
        (errors.ChildCrashed, "crash"),
        (errors.ProtocolError, "invalid"),
    ],
)
def test_a_childs_error_knows_its_status(error: type[errors.ChildError], status: str) -> None:
    assert error.status == status
    assert status in get_args(errors.Status)


def test_explain_says_what_got_allowed_and_remedy() -> None:
    assert explain("lr", 2, "1 or less", "lower it") == "lr: got 2, allowed: 1 or less; lower it."
    assert explain("lr", "x", "a number") == "lr: got 'x', allowed: a number."


@pytest.mark.parametrize(
    ("name", "known", "text"),
    [
        ("memry", ["copy", "memory"], "copy, memory (did you mean 'memory'?)"),
        ("zzz", ["copy", "memory"], "copy, memory"),
        ("copy", iter(["memory", "copy"]), "copy, memory (did you mean 'copy'?)"),
        ("x", [], ""),
    ],
)
def test_near(name: str, known: list[str], text: str) -> None:
    assert near(name, known) == text
