"""Checks of the policies of a new Job."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.cases import admitted, job, refused, task

WORK = "spec.tasks[0]"


JOB_POLICIES = "spec.policies"


def policies(*each: dict[str, Any]) -> dict[str, Any]:
    return job(policies=list(each))


def test_event_together_with_exit_code() -> None:
    refused(
        policies({"event": "PodFailed", "exitCode": 3, "action": "AbortJob"}),
        f"{JOB_POLICIES}[0].exitCode",
        "simultaneously",
    )
    refused(
        policies({"events": ["PodFailed"], "exitCode": 3, "action": "AbortJob"}),
        f"{JOB_POLICIES}[0].exitCode",
        "simultaneously",
    )


@pytest.mark.parametrize("policy", [{}, {"events": []}, {"event": ""}, {"event": None, "exitCode": None}])
def test_neither_event_nor_exit_code(policy: dict[str, Any]) -> None:
    refused(policies({**policy, "action": "AbortJob"}), f"{JOB_POLICIES}[0]", "the policy has no cause")


@pytest.mark.parametrize("event", ["PodRunning", "OutOfSync", "CommandIssued", "podfailed"])
def test_unknown_event(event: str) -> None:
    problem = refused(
        policies({"event": event, "action": "AbortJob"}), f"{JOB_POLICIES}[0].event", f"`{event}`"
    )
    assert event != "podfailed" or problem.hint == "did you mean `PodFailed`?"


def test_unknown_event_in_a_list() -> None:
    refused(
        policies({"events": ["PodFailed", "X"], "action": "AbortJob"}),
        f"{JOB_POLICIES}[0].events",
        "invalid policy event `X`",
    )


@pytest.mark.parametrize("action", ["SyncJob", "Enqueue", "restartjob", "Nothing"])
def test_unknown_action(action: str) -> None:
    problem = refused(
        policies({"event": "PodFailed", "action": action}), f"{JOB_POLICIES}[0].action", f"`{action}`"
    )
    assert action != "restartjob" or problem.hint == "did you mean `RestartJob`?"
    assert action != "Nothing" or "AbortJob, RestartJob" in (problem.hint or "")


@pytest.mark.parametrize("cause", [{"event": "PodFailed"}, {"exitCode": 1}])
def test_no_action(cause: dict[str, Any]) -> None:
    refused(policies(cause), f"{JOB_POLICIES}[0]", "no action")


def test_duplicate_event() -> None:
    one = {"event": "PodFailed", "action": "AbortJob"}
    refused(
        policies(one, {"events": ["Unknown", "PodFailed"], "action": "RestartJob"}),
        f"{JOB_POLICIES}[1].events",
        "policy 1 of this list",
    )
    refused(job(task(policies=[one, one])), f"{WORK}.policies[1].event", "`PodFailed`")
    admitted(job(task(policies=[one]), policies=[one]))
    admitted(policies({"event": "PodFailed", "events": ["PodFailed"], "action": "AbortJob"}))


def test_duplicate_exit_code() -> None:
    one = {"exitCode": 3, "action": "AbortJob"}
    refused(
        policies(one, {"exitCode": 3, "action": "RestartJob"}), f"{JOB_POLICIES}[1].exitCode", "exitCode `3`"
    )


def test_exit_code_0() -> None:
    refused(policies({"exitCode": 0, "action": "AbortJob"}), f"{JOB_POLICIES}[0].exitCode", "success")


def test_the_event_any_together_with_others() -> None:
    star, other = {"event": "*", "action": "AbortJob"}, {"event": "PodFailed", "action": "RestartJob"}
    assert "PodFailed" in (refused(policies(other, star), f"{JOB_POLICIES}[1]", "every event").hint or "")
    refused(
        policies({"events": ["*", "PodFailed"], "action": "AbortJob"}), f"{JOB_POLICIES}[0]", "every event"
    )
    admitted(policies(star, {"exitCode": 3, "action": "AbortJob"}))


def test_pod_pending_needs_a_timeout() -> None:
    doc = {"event": "PodPending", "action": "AbortJob"}
    refused(policies(doc), f"{JOB_POLICIES}[0]", "needs a timeout")
    admitted(policies({**doc, "timeout": "5m"}))


def test_a_negative_timeout() -> None:
    refused(
        policies({"event": "PodFailed", "action": "AbortJob", "timeout": "-1s"}),
        f"{JOB_POLICIES}[0].timeout",
        "negative",
    )
    admitted(policies({"event": "PodFailed", "action": "AbortJob", "timeout": "0"}))


@pytest.mark.parametrize(
    "timeout", ["2562048h", "9" * 63 + "s", "-3000000h"], ids=["hours", "digits", "negative"]
)
def test_a_duration_beyond_gos_limit(timeout: str) -> None:
    policy = {"event": "PodFailed", "action": "AbortJob", "timeout": timeout}
    reason = "is longer than 2562047h, the longest duration that Kubernetes can read"
    assert refused(policies(policy), f"{JOB_POLICIES}[0].timeout", reason).hint == "write a shorter one"
    refused(job(task(policies=[policy])), f"{WORK}.policies[0].timeout", reason)
    refused(job(runningEstimate=timeout), "spec.runningEstimate", reason)
    admitted(policies({**policy, "timeout": "2562047h"}))


def test_a_timeout_that_is_not_a_duration_is_reported_once() -> None:
    refused(
        policies({"event": "PodFailed", "action": "AbortJob", "timeout": "5 minutes"}),
        f"{JOB_POLICIES}[0].timeout",
        "is not a duration",
    )


@pytest.mark.parametrize(
    "event", ["*", "PodFailed", "PodEvicted", "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated"]
)
def test_every_event_is_known(event: str) -> None:
    admitted(policies({"event": event, "action": "AbortJob"}))


@pytest.mark.parametrize(
    "action",
    [
        "AbortJob",
        "RestartJob",
        "RestartTask",
        "RestartPod",
        "RestartPartition",
        "TerminateJob",
        "CompleteJob",
        "ResumeJob",
    ],
)
def test_every_action_is_known(action: str) -> None:
    admitted(policies({"event": "PodFailed", "action": action}))
