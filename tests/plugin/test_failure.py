"""What a case below its bar says."""

from __future__ import annotations

from dataclasses import replace

from pytest_selectivbench.bench import failure
from selectivbench.anatomy import Anatomy, Facet
from selectivbench.thresholds import bar_for


def test_a_failure_says_where_the_model_is_wrong(a_record):
    (part,) = a_record.evaluations
    facet = Facet("memory", ("1", "2", "3"), (90,) * 3, (90, 88, 9), (90,) * 3)
    near = replace(part, anatomy=Anatomy((facet,), 83, 83))
    failed = replace(a_record, status="fail", accuracy=0.5, score=0.4286, evaluations=(near,) * 2)
    lines = failure(failed).splitlines()
    bar = bar_for("selective_copy-v1", "lite", "base").bar
    headline = "lstm on selective_copy-v1 (seed 1, lite): score 0.429 is below the bar"
    assert lines[0] == f"{headline} {bar:.3f}."
    assert lines[2] == (
        "  fails beyond 2 symbols of memory: 0.10 of what can be known is named there, 0.99 elsewhere"
    )
    assert len(lines) == 5


def test_a_failure_without_an_anatomy_says_nothing_of_it(a_record):
    (part,) = a_record.evaluations
    bare = replace(part, anatomy=None)
    failed = replace(a_record, status="fail", accuracy=0.5, score=0.4286, evaluations=(bare,))
    assert len(failure(failed).splitlines()) == 4
