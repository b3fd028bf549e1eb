"""The facts about a pod that the lifecycle needs."""

from __future__ import annotations

import pytest

from tests.cluster.controller.pods import EPOCH, at, ended, pod
from vcjob.cluster.controller.cache.pod_facts import fact_of


def test_a_new_pod_has_its_identity_and_creation_time() -> None:
    fact = fact_of(pod(task="worker", index=12, attempt=3))
    assert fact is not None
    assert (fact.task, fact.index, fact.attempt, fact.phase) == ("worker", 12, 3, "Pending")
    assert (fact.created, fact.since) == (EPOCH, EPOCH)
    assert not fact.terminating and fact.failure is None


HOSTILE = ["", "-1", "²", "٣", "2000000000", "150000", "1e3", "9" * 5000, " 1", "1\n"]


@pytest.mark.parametrize(
    "marks", [{}, *({"volcano.sh/task-spec": "a", "volcano.sh/task-index": index} for index in HOSTILE)]
)
def test_a_pod_without_valid_annotations_is_no_pod_of_the_job(marks: dict[str, str]) -> None:
    assert fact_of(pod(metadata={"annotations": marks})) is None


@pytest.mark.parametrize("name", ["copy", "j-a-1", "j-b-0", "j-a-00", "other-a-0"])
def test_a_copy_of_a_pod_under_another_name_is_no_pod_of_the_job(name: str) -> None:
    assert fact_of(pod(metadata={"name": name})) is None


@pytest.mark.parametrize("number", HOSTILE)
def test_a_hostile_attempt_or_version_counts_as_the_first(number: str) -> None:
    marks = {
        "volcano.sh/task-spec": "a", "volcano.sh/task-index": "0",
        "vcjob.io/attempt": number, "volcano.sh/job-version": number,
    }  # fmt: skip
    fact = fact_of(pod(metadata={"annotations": marks}))
    assert fact is not None
    assert 0 <= fact.attempt < 2**31 and 0 <= fact.version < 2**31


def test_a_running_pod_is_ready_by_its_condition_and_runs_since_its_first_container_started() -> None:
    running = {"name": "c", "state": {"running": {"startedAt": at(7)}}}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": at(9)}
    fact = fact_of(pod("Running", containerStatuses=[running], conditions=[ready]))
    assert fact is not None
    assert (fact.ready, fact.since, fact.started) == (True, EPOCH + 7, EPOCH + 7)


def test_a_deleted_pod_terminates_since_the_request() -> None:
    fact = fact_of(pod("Running", metadata={"deletionTimestamp": at(40), "deletionGracePeriodSeconds": 30}))
    assert fact is not None
    assert fact.terminating and fact.since == EPOCH + 10


@pytest.mark.parametrize(("second", "phase"), [(9, "Succeeded"), (10, "Failed"), (12, "Failed")])
def test_an_exit_with_0_because_of_the_deletion_is_no_success(second: int, phase: str) -> None:
    deleted = {"deletionTimestamp": at(40), "deletionGracePeriodSeconds": 30}
    fact = fact_of(pod("Succeeded", metadata=deleted, containerStatuses=[ended("c", 0, second)]))
    assert fact is not None
    assert (fact.phase, fact.failure) == (phase, None)


@pytest.mark.parametrize(("second", "phase"), [(10, "Succeeded"), (30, "Succeeded"), (38, "Failed")])
def test_a_finished_pod_that_is_deleted_later_has_succeeded(second: int, phase: str) -> None:
    """The grace period is 0 both for a finished pod and in the kubelet's last deletion, right after the end."""
    deleted = {"deletionTimestamp": at(40), "deletionGracePeriodSeconds": 0}
    fact = fact_of(pod("Succeeded", metadata=deleted, containerStatuses=[ended("c", 0, second)]))
    assert fact is not None
    assert (fact.phase, fact.failure) == (phase, None)


@pytest.mark.parametrize(("second", "phase"), [(9, "Succeeded"), (12, "Failed")])
def test_the_time_of_an_eviction_decides_whether_the_pod_ended_because_of_it(second: int, phase: str) -> None:
    deleted = {"deletionTimestamp": at(40), "deletionGracePeriodSeconds": 0}
    drained = [{"type": "DisruptionTarget", "status": "True", "lastTransitionTime": at(10)}]
    fact = fact_of(
        pod("Succeeded", metadata=deleted, conditions=drained, containerStatuses=[ended("c", 0, second)])
    )
    assert fact is not None
    assert fact.phase == phase


def test_of_two_failed_containers_the_first_counts() -> None:
    fact = fact_of(pod("Failed", containerStatuses=[ended("late", 1, 9), ended("early", 42, 3)]))
    assert fact is not None and fact.failure is not None
    assert (fact.failure.container, fact.failure.exit_code, fact.failure.init) == ("early", 42, False)
    assert (fact.since, fact.finished) == (EPOCH + 9, EPOCH + 9)


def test_within_one_second_a_failure_comes_before_a_kill() -> None:
    fact = fact_of(pod("Failed", containerStatuses=[ended("victim", 137, 3), ended("cause", 1, 3)]))
    assert fact is not None and fact.failure is not None
    assert fact.failure.container == "cause"


def test_an_init_container_that_failed_is_named_as_one() -> None:
    init = [ended("fetch", 0, 1), ended("check", 5, 2, message="no disk")]
    fact = fact_of(pod("Failed", initContainerStatuses=init))
    assert fact is not None and fact.failure is not None
    assert (fact.failure.container, fact.failure.init, fact.failure.message) == ("check", True, "no disk")


def test_a_container_that_is_started_again_still_shows_how_it_failed() -> None:
    fact = fact_of(
        pod("Pending", initContainerStatuses=[ended("wait-for-master", 91, 5, last=True, restarts=2)])
    )
    assert fact is not None and fact.failure is not None
    assert (fact.failure.exit_code, fact.restarts, fact.phase) == (91, 2, "Pending")


def test_a_signal_is_read_from_the_exit_code() -> None:
    fact = fact_of(pod("Failed", containerStatuses=[ended("c", 139, 3)]))
    assert fact is not None and fact.failure is not None
    assert fact.failure.signal == 11


def test_a_pod_that_failed_as_a_whole_gives_its_own_reason() -> None:
    fact = fact_of(pod("Failed", reason="DeadlineExceeded", message="too long"))
    assert fact is not None and fact.failure is not None
    assert (fact.failure.reason, fact.failure.message, fact.failure.exit_code) == (
        "DeadlineExceeded",
        "too long",
        None,
    )
    assert not fact.evicted


@pytest.mark.parametrize("reason", ["Evicted", "Preempting", "NodeLost", "Shutdown"])
def test_an_eviction_is_distinguished_from_a_crash(reason: str) -> None:
    fact = fact_of(pod("Failed", reason=reason, containerStatuses=[ended("c", 137, 3)]))
    assert fact is not None and fact.evicted


def test_a_disruption_target_that_failed_was_evicted() -> None:
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    fact = fact_of(pod("Failed", conditions=[target], containerStatuses=[ended("c", 143, 3)]))
    assert fact is not None and fact.evicted


def test_a_pod_that_succeeded_has_no_failure_whatever_its_containers_did_before() -> None:
    fact = fact_of(
        pod("Succeeded", containerStatuses=[{**ended("c", 0, 9), "lastState": ended("c", 1, 3)["state"]}])
    )
    assert fact is not None
    assert fact.failure is None and not fact.evicted and fact.finished == EPOCH + 9


def test_a_pod_that_is_garbage_collected_with_its_node_is_terminating_and_has_not_failed() -> None:
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "lastTransitionTime": at(7),
    }
    fact = fact_of(pod("Failed", conditions=[target]))
    assert fact is not None
    assert fact.terminating and fact.evicted
    assert fact.since == EPOCH + 7


@pytest.mark.parametrize("lost_time", [True, False])
def test_a_wait_for_the_master_that_timed_out_is_the_cause_when_the_deadline_ends_its_next_try(
    lost_time: bool,
) -> None:
    """The kubelet has restarted the init container, and the pod's deadline kills that try."""
    tried = ended("wait-for-master", 91, 20, last=True, message="the master does not answer")
    killed = {"exitCode": 137, "reason": "ContainerStatusUnknown" if lost_time else "Error"}
    if not lost_time:
        killed["finishedAt"] = at(21)
    tried["state"] = {"terminated": killed}
    main = {"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}
    found = fact_of(
        pod(
            "Failed",
            reason="DeadlineExceeded",
            message="Pod was active on the node longer than the specified deadline",
            initContainerStatuses=[tried],
            containerStatuses=[main],
        )
    )
    assert found is not None and found.failure is not None
    assert (found.failure.container, found.failure.exit_code, found.failure.init) == (
        "wait-for-master",
        91,
        True,
    )
    assert found.failure.message == "the master does not answer"


def test_an_init_container_that_succeeded_at_last_is_not_the_cause() -> None:
    waited = ended("wait-for-master", 91, 5, last=True)
    waited["state"] = ended("wait-for-master", 0, 9)["state"]
    found = fact_of(pod("Failed", initContainerStatuses=[waited], containerStatuses=[ended("main", 3, 12)]))
    assert found is not None and found.failure is not None
    assert (found.failure.container, found.failure.exit_code) == ("main", 3)
