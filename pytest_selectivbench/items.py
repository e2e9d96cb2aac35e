"""What every test of a submission has in common: its headline, its id, and how it says a failure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from selectivbench.errors import SelectivError

if TYPE_CHECKING:
    from selectivbench.submission import Submission


class SubmissionItem(pytest.Function):
    """A test that needs the process of one submission."""

    submission: Submission
    sentences: ClassVar[tuple[type[Exception], ...]] = (SelectivError,)
    """Errors whose own words are all that a person should read."""

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """A location whose headline names the file too; pytest wants a line where it skips."""
        file = self.submission.path.name
        return self.config.rootpath / file, 0, f"{file}: {self.name}"

    @property
    def id(self) -> Any:
        """As pytest reads it back from its cache, brackets apart; else --lf would find nothing."""
        made = super().id
        return type(made).parse(str(made))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:  # noqa: ARG002 - as in Function
        """What the person should read: our one sentence, not the way to it."""
        if isinstance(excinfo.value, self.sentences):
            return str(excinfo.value)
        return super().repr_failure(excinfo)
