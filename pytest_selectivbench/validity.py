"""Validity checks as test cases: ``mamba.py::validity-causality[noisy_gaps-v2]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from pytest_selectivbench.bench import LAB
from pytest_selectivbench.items import SubmissionItem
from selectivbench.errors import SelectivError
from selectivbench.tasks import get_task
from selectivbench.validity import ALL, QUICK, TASK

if TYPE_CHECKING:
    from selectivbench.runner import Job


class Invalid(Exception):
    """A check that a submission must hold does not hold."""


class ValidityCase(SubmissionItem):
    """One check of one submission."""

    job: Job
    check: str
    sentences = (Invalid, SelectivError)

    @classmethod
    def of(cls, parent: pytest.Collector, job: Job, check: str) -> ValidityCase:
        """With its id."""
        name = f"validity-{check}[{get_task(TASK).id}]"
        item: ValidityCase = cls.from_parent(parent, name=name, callobj=hold_check)
        item.submission, item.job, item.check = job.submission, job, check
        return item


def hold_check(request: pytest.FixtureRequest) -> None:
    """Run a check on a briefly trained submission, and fail where it does not hold."""
    case = cast("ValidityCase", request.node)
    finding = request.config.stash[LAB].examined(case.job, case.check)
    case.user_properties.append(("validity", str(finding)))
    if not finding.ok:
        raise Invalid(f"{case.job.submission.id}: {finding}.")


def wanted(asked: str, conformance: bool) -> tuple[str, ...]:
    """The checks that a run has: the quick ones in smoke, all on request, or none."""
    if asked == "auto":
        return QUICK if conformance else ()
    return ALL if asked == "yes" else ()
