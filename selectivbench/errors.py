"""One tree of exceptions; each message says what is wrong, what was got, what is allowed, what to do.

SelectivError
├── UsageError        (also ValueError)  an option, parameter or path that a person gave
├── SubmissionError                      a submission file that cannot be used
├── RecordError                          a record that cannot be read
├── EvidenceError                        what is frozen is not what the records say
└── ChildError                           the submission's process did not finish its work
    ├── ChildFailed                      it raised; carries its own traceback
    ├── ChildOutOfMemory                 it asked for more memory than there is
    ├── ChildTimeout                     a phase took longer than its deadline
    ├── ChildCrashed                     it ended without a word (signal, os._exit)
    └── ProtocolError                    it answered with something that is no answer
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Literal, TypeAlias

Status: TypeAlias = Literal["pass", "fail", "invalid", "error", "timeout", "oom", "crash", "skip"]
"""How a case can end."""


class SelectivError(Exception):
    """Root of every error that this package raises on purpose."""


class UsageError(SelectivError, ValueError):
    """Something a person gave is not usable: an option, a parameter, a path."""


class SubmissionError(SelectivError):
    """A submission file that cannot be used, with the reason and the remedy."""


class RecordError(SelectivError):
    """A record file that is not a record."""


class EvidenceError(SelectivError):
    """Bars or claims that are frozen differ from what the committed records give."""


class ChildError(SelectivError):
    """The submission's process did not finish its work; ``status`` is what its record says."""

    status: Status = "error"


class ChildFailed(ChildError):
    """The submission raised; the message is its own traceback, trimmed to its frames."""


class ChildOutOfMemory(ChildError):
    """The submission asked for more memory than there is, on the host or on the device."""

    status: Status = "oom"


class ChildTimeout(ChildError):
    """A phase of the submission's process took longer than its deadline."""

    status: Status = "timeout"


class ChildCrashed(ChildError):
    """The submission's process ended without a word (a signal, or os._exit)."""

    status: Status = "crash"


class ProtocolError(ChildError):
    """The submission's process answered with something that is no answer."""

    status: Status = "invalid"


def explain(what: str, got: object, allowed: object, remedy: str = "") -> str:
    """One sentence for a bad value.

    >>> explain("seed", -1, "0 or more", "pass --selectiv-seeds 1,2,3")
    'seed: got -1, allowed: 0 or more; pass --selectiv-seeds 1,2,3.'
    """
    tail = f"; {remedy}" if remedy else ""
    return f"{what}: got {got!r}, allowed: {allowed}{tail}."


def near(name: str, known: Iterable[str]) -> str:
    """The list of what is known, led by the nearest name where there is one.

    >>> near("mamory", ["memory", "copy"])
    "copy, memory (did you mean 'memory'?)"
    """
    names = sorted(known)
    listed = ", ".join(names)
    close = get_close_matches(name, names, n=1)
    return f"{listed} (did you mean {close[0]!r}?)" if close else listed
