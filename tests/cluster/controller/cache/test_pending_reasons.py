"""Why pods do not run, and which of many reasons is reported."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.cluster.controller.pods import EPOCH, at, ended, pod, waiting
from vcjob.cluster.controller.cache.pending_reasons import (
    SLOW_SECONDS,
    UNHANDLED_SECONDS,
    PodCauses,
    cause_of,
)
from vcjob.cluster.controller.pod_events import PartialEvent, newest
from vcjob.lifecycle.observed import Blocked

UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
PLACED = {"nodeName": "n1"}


def reason(found: object) -> str:
    return getattr(found, "reason", "")


def test_the_schedulers_own_message_is_reported() -> None:
    cause = cause_of(pod(conditions=[UNSCHEDULABLE]))
    assert cause is not None
    assert (cause.reason, cause.message) == ("Unschedulable", "0/3 nodes")


@pytest.mark.parametrize(
    "message",
    [
        "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
        '0/3 nodes are available: persistentvolumeclaim "data" not found. not found',
    ],
)
def test_a_claim_that_is_missing_or_not_bound_is_a_volume_and_no_lack_of_nodes(message: str) -> None:
    assert cause_of(pod(conditions=[{**UNSCHEDULABLE, "message": message}])) == Blocked("Volume", message)


def test_a_node_that_does_not_respond_is_named_also_while_its_pod_is_being_deleted() -> None:
    """The control plane alone changes Ready then; a failing readiness probe changes ContainersReady too."""
    lost = [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}]
    expected = Blocked("NodeLost", "its node n1 does not respond")
    assert cause_of(pod("Running", spec=PLACED, conditions=lost)) == expected
    deleted = {"deletionTimestamp": at(5), "deletionGracePeriodSeconds": 30}
    assert cause_of(pod("Running", spec=PLACED, conditions=lost, metadata=deleted)) == expected
    probe = [lost[0], {**lost[1], "status": "False"}]
    gate = [{**lost[0], "reason": "ReadinessGatesNotReady"}, lost[1]]
    assert [cause_of(pod("Running", spec=PLACED, conditions=each)) for each in (probe, gate)] == [None, None]


def test_an_image_that_cannot_be_pulled() -> None:
    cause = cause_of(
        pod(spec=PLACED, containerStatuses=[waiting("c", "ImagePullBackOff", "Back-off pulling x")])
    )
    assert cause is not None
    assert cause.reason == "ImagePull" and "Back-off pulling x" in cause.message


def test_a_running_pod_in_a_crash_loop_shows_its_last_exit() -> None:
    status = waiting("c", "CrashLoopBackOff", lastState=ended("c", 3, 5, message="a\nboom\n")["state"])
    cause = cause_of(pod("Running", spec=PLACED, containerStatuses=[status]))
    assert cause is not None
    assert cause.reason == "CrashLoop" and "exit code 3, boom" in cause.message


def test_an_init_step_is_named() -> None:
    running = {"name": "fetch-data", "state": {"running": {}}}
    cause = cause_of(pod(spec=PLACED, initContainerStatuses=[running]))
    assert cause is not None
    assert cause.reason == "InitStep" and "fetch-data" in cause.message


def test_the_wait_for_the_master_has_its_own_message() -> None:
    running = {"name": "wait-for-master", "state": {"running": {}}}
    cause = cause_of(pod(spec=PLACED, initContainerStatuses=[running]))
    assert cause is not None and cause.message == "waits for the master's port"


def test_a_pod_on_its_way_has_no_cause_for_a_while() -> None:
    causes = PodCauses()
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(20)}
    creating = [waiting("c", "ContainerCreating")]
    causes.put(pod(spec=PLACED, conditions=[placed], containerStatuses=creating))
    due = EPOCH + 20 + SLOW_SECONDS
    assert causes.worst(due - 1) == (None, due)
    assert causes.slow_starter(due - 1) is None
    cause, _ = causes.worst(due)
    assert cause is not None and cause.message == "j-a-0: no container has started on node n1 yet"
    assert causes.slow_starter(due) == "u"
    causes.put(pod("Running", spec=PLACED))
    assert causes.worst(due) == (None, None)


def test_a_pod_that_runs_or_terminates_has_no_cause() -> None:
    assert cause_of(pod("Running", spec=PLACED)) is None
    assert (
        cause_of(pod(metadata={"deletionTimestamp": "2026-01-01T00:00:40Z"}, conditions=[UNSCHEDULABLE]))
        is None
    )


def test_a_missing_scheduler_is_reported_only_after_some_seconds() -> None:
    causes = PodCauses()
    causes.put(pod(spec={"schedulerName": "nobody"}))
    assert causes.worst(EPOCH + 1) == (None, EPOCH + UNHANDLED_SECONDS)
    cause, wake_at = causes.worst(EPOCH + UNHANDLED_SECONDS)
    assert reason(cause) == "NoSuchScheduler" and wake_at is None


def test_a_scheduler_that_is_busy_with_other_jobs_is_not_called_missing() -> None:
    seen_at: dict[str, float] = {}
    other, causes = PodCauses(seen_at), PodCauses(seen_at)
    causes.put(pod(spec={"schedulerName": "busy"}))
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(8)}
    other.put(pod("Running", uid="other", spec={**PLACED, "schedulerName": "busy"}, conditions=[placed]))
    gated = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "lastTransitionTime": at(15),
    }
    other.put(pod(uid="gated", spec={"schedulerName": "busy"}, conditions=[gated]))
    due = EPOCH + 8 + UNHANDLED_SECONDS
    assert causes.worst(due - 1) == (None, due)
    assert reason(causes.worst(due)[0]) == "NoSuchScheduler"


def test_the_pod_of_a_gang_for_which_there_is_no_room_is_named_before_those_that_wait_for_it() -> None:
    causes = PodCauses()
    fits = {**UNSCHEDULABLE, "reason": "Schedulable", "message": "can possibly be assigned to n1"}
    unknown = {**UNSCHEDULABLE, "reason": "Undetermined", "message": "pod group is not ready"}
    causes.put(pod(uid="0", index=0, conditions=[fits]))
    causes.put(pod(uid="1", index=1, conditions=[unknown]))
    alone, _ = causes.worst(EPOCH)
    assert alone == Blocked("Unschedulable", "j-a-0: can possibly be assigned to n1 (and 1 more pod)")
    causes.put(pod(uid="2", index=2, conditions=[UNSCHEDULABLE]))
    assert causes.worst(EPOCH)[0] == Blocked("Unschedulable", "j-a-2: 0/3 nodes (and 2 more pods)")
    causes.put(pod(uid="2", index=2, conditions=[fits]))
    assert causes.worst(EPOCH)[0] == Blocked(
        "Unschedulable", "j-a-0: can possibly be assigned to n1 (and 2 more pods)"
    )


def test_what_a_user_must_fix_comes_first() -> None:
    causes = PodCauses()
    causes.put(pod(uid="1", index=1, conditions=[UNSCHEDULABLE]))
    causes.put(pod(uid="2", index=2, spec=PLACED, containerStatuses=[waiting("c", "ErrImagePull", "gone")]))
    causes.put(pod(uid="3", index=3, conditions=[UNSCHEDULABLE]))
    assert reason(causes.worst(EPOCH)[0]) == "ImagePull"
    causes.drop("2")
    cause, _ = causes.worst(EPOCH)
    assert cause is not None and cause.message == "j-a-1: 0/3 nodes (and 1 more pod)"


def test_a_cause_goes_when_the_pod_runs() -> None:
    causes = PodCauses()
    causes.put(pod(conditions=[UNSCHEDULABLE]))
    causes.put(pod("Running", spec=PLACED))
    assert causes.worst(EPOCH) == (None, None)


def said(kind: str, reason: str, second: int) -> PartialEvent:
    return PartialEvent(reason, f"about {reason}", kind, datetime.fromtimestamp(EPOCH + second, UTC))


def test_of_a_pods_events_the_latest_warning_says_why_it_does_not_start() -> None:
    mount, sandbox = said("Warning", "FailedMount", 5), said("Warning", "FailedCreatePodSandBox", 3)
    pulling, scheduled = said("Normal", "Pulling", 9), said("Normal", "Scheduled", 1)
    found = newest([scheduled, mount, sandbox, pulling])
    assert found == Blocked("Volume", "FailedMount: about FailedMount")
    assert reason(newest([scheduled, sandbox])) == "PodSandbox"
    assert newest([pulling, scheduled]) == Blocked("Starting", "Pulling: about Pulling")
    assert newest([]) is None
