"""The cost of `admit()` grows with the size of a Job and not faster, whatever the Job looks like.

Function calls are counted and no clock is read. The limits are lifted, so that the checks behind them are
measured too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import HealthCheck, given, settings

from tests.admission.expensive_jobs import (
    SHAPES,
    Document,
    expensive_jobs,
    many_tasks,
    unknown_dependencies,
    unknown_fields_of_tasks,
)
from tests.counting import calls
from vcjob.admission import limits
from vcjob.admission.limits import check_limits
from vcjob.admission.review import Admission, admit
from vcjob.spec import spelling
from vcjob.spec.problem import MAX_TEXT

SIZES = (10, 100, 1_000, 10_000)
MAX_EXPONENT = 1.1


def growth(cost_of: Callable[[int], int], sizes: Sequence[int] = SIZES) -> list[float]:
    """The exponent of the growth between each two sizes."""
    costs = [cost_of(size) for size in sizes]
    return [math.log10(larger / smaller) for smaller, larger in itertools.pairwise(costs)]


@pytest.fixture
def no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in vars(limits):
        if name.startswith("MAX_") and name not in ("MAX_PROBLEMS", "MAX_ERRORS"):
            monkeypatch.setattr(limits, name, 10**9)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("no_limits")
def test_admission_is_linear_in_the_size_of_a_job(shape: str) -> None:
    admit(SHAPES[shape](1))  # what is loaded once does not count

    def cost(size: int) -> int:
        document = SHAPES[shape](size)
        return calls(lambda: admit(document))

    assert max(growth(cost)) <= MAX_EXPONENT


@pytest.mark.parametrize("shape", SHAPES)
def test_the_limits_themselves_are_checked_in_linear_time(shape: str) -> None:
    def cost(size: int) -> int:
        document = SHAPES[shape](size)
        return calls(lambda: check_limits(document))

    assert max(growth(cost, SIZES[:3])) <= MAX_EXPONENT


def test_an_update_costs_no_more_than_a_few_admissions() -> None:
    document = many_tasks(200)
    once = calls(lambda: admit(document))
    assert calls(lambda: admit(document, old=document)) < 5 * once


def test_a_suggestion_costs_the_same_among_ten_names_and_among_ten_thousand() -> None:
    def cost(size: int) -> int:
        known = spelling.Vocabulary(f"a-task-with-number-{i}" for i in range(size))
        known.nearest("warm up")
        return calls(lambda: known.nearest("a-taks-with-number-77"))

    assert cost(10_000) <= 2 * cost(1_000)


def test_the_messages_of_unknown_fields_cost_a_bounded_amount() -> None:
    admit(unknown_fields_of_tasks(1))  # what is loaded once does not count
    doc = unknown_fields_of_tasks(100)
    assert calls(lambda: admit(doc)) < 1_000_000  # 20 for each field; a message with its suggestion takes 500
    assert admit(doc).problems[-1].message == "and at least 900 more problems"


def check_bounds(result: Admission) -> None:
    assert len(result.problems) <= limits.MAX_PROBLEMS + 1
    for problem in result.problems:
        assert len(problem.message) <= MAX_TEXT
        assert len(problem.hint or "") <= MAX_TEXT
    assert result.valid == (result.job is not None)


@given(expensive_jobs())
@settings(suppress_health_check=list(HealthCheck))
def test_a_job_meant_to_be_expensive_costs_a_bounded_amount_and_gets_a_bounded_answer(doc: Document) -> None:
    result = admit(doc)
    check_bounds(result)
    assert calls(lambda: admit(doc)) < 2_000_000


def test_problems_beyond_the_limit_are_counted() -> None:
    problems = admit(unknown_dependencies(150)).problems
    assert len(problems) == limits.MAX_PROBLEMS + 1
    assert (problems[-1].message, problems[-1].path) == ("and 50 more problems", "")
    assert admit(unknown_dependencies(101)).problems[-1].message == "and 1 more problem"
    assert len(admit(unknown_dependencies(100)).problems) == limits.MAX_PROBLEMS
    assert admit(unknown_dependencies(2_000)).problems[-1].message == "and at least 900 more problems"


def test_many_warnings_do_not_hide_an_error() -> None:
    doc = many_tasks(1_500)
    for task in doc["spec"]["tasks"]:
        task["template"]["spec"]["containers"][0]["env"] = [{"name": "VC_T0_NUM", "value": "1"}]
    result = admit(doc)
    assert result.valid
    assert result.problems[-1].message == "and 1400 more problems"
    assert {problem.severity for problem in result.problems} == {"warning"}
    doc["spec"]["minAvailable"] = 10**6
    assert [p.path for p in admit(doc).problems if p.severity == "error"] == ["spec.minAvailable"]
