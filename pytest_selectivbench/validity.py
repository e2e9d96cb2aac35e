"""Validity checks as test cases: ``mamba.py::validity-causality[noisy_gaps-v1]``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_selectivbench.bench import LAB
from selectivbench.errors import SelectivError
from selectivbench.tasks import get_task
from selectivbench.validity import ALL, QUICK, TASK

if TYPE_CHECKING:
    from selectivbench.runner import Job


class Invalid(Exception):
    """A check that a submission must hold does not hold."""


class ValidityCase(pytest.Function):
    """One check of one submission."""

    job: Job
    check: str

    @classmethod
    def of(cls, parent: pytest.Collector, job: Job, check: str) -> ValidityCase:
        """With its id."""
        name = f"validity-{check}[{get_task(TASK).id}]"
        item: ValidityCase = cls.from_parent(parent, name=name, callobj=hold_check)
        item.job, item.check = job, check
        return item

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """A location whose headline names the file too."""
        file = self.job.submission.path.name
        return self.config.rootpath / file, None, f"{file}: {self.name}"

    @property
    def id(self) -> Any:
        """As pytest reads it back from its cache, brackets apart; else --lf would find nothing."""
        made = super().id
        return type(made).parse(str(made))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:  # noqa: ARG002 - as in Function
        """Our one sentence, not the way to it."""
        if isinstance(excinfo.value, Invalid | SelectivError):
            return str(excinfo.value)
        return super().repr_failure(excinfo)


def hold_check(request: pytest.FixtureRequest) -> None:
    """Run a check on a briefly trained submission, and fail where it does not hold."""
    case = cast("ValidityCase", request.node)
    finding = request.config.stash[LAB].examination(case.job).find(case.check)
    case.user_properties.append(("validity", f"{finding.check}: {finding.text}"))
    if not finding.ok:
        raise Invalid(f"{case.job.submission.id}: {finding.check} does not hold: {finding.text}.")


def wanted(asked: str, conformance: bool) -> tuple[str, ...]:
    """The checks that a run has: the quick ones in smoke, all on request, or none."""
    if asked == "auto":
        return QUICK if conformance else ()
    return ALL if asked == "yes" else ()
