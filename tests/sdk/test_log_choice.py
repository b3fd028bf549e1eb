"""The choice of log lines is checked against the pods that the job has, and the attempts that it has had."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from vcjob.errors import UserError
from vcjob.report.logs import LogFilter
from vcjob.report.podstate import PodState
from vcjob.sdk.handle import Handle
from vcjob.sdk.log_choice import check_choice


def job_after_restarts(*attempts: int) -> Handle:
    """A job of one task whose pods are in these attempts."""
    pods = [
        PodState(task="worker", index=index, name=f"job-worker-{index}", uid=f"uid-{index}", attempt=attempt)
        for index, attempt in enumerate(attempts)
    ]
    handle = SimpleNamespace(
        pods=lambda: pods, replicas=len(pods), replicas_by_task=lambda: {"worker": len(pods)}
    )
    return cast(Handle, handle)


@pytest.mark.parametrize("attempt", [0, 1, 2])
def test_an_attempt_whose_pods_were_replaced_is_left_to_the_log_reader(attempt: int) -> None:
    check_choice(job_after_restarts(1, 2), LogFilter(attempt=attempt), follow=False)


def test_an_attempt_that_has_not_begun_is_an_error_that_lists_the_others() -> None:
    with pytest.raises(UserError, match="the job has no attempt 3") as raised:
        check_choice(job_after_restarts(1, 2), LogFilter(attempt=3), follow=False)
    assert raised.value.hint == "its attempts are: 0, 1, 2"
