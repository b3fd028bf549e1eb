"""How soon a Job is reconciled after a change of the reason why a pod of it waits."""

from __future__ import annotations

import pytest

from tests.cluster.controller.pods import EPOCH, at, pod
from vcjob.cluster.controller.cache.job_cache import CAUSE_DELAY_SECONDS, CHANGE_DELAY_SECONDS, JobCache
from vcjob.cluster.controller.cache.pending_reasons import SLOW_SECONDS
from vcjob.lifecycle.observed import Blocked


@pytest.fixture
def woken() -> list[float]:
    """In how many seconds the Job is to be reconciled at the latest."""
    return []


def jobs_of(woken: list[float]) -> JobCache:
    return JobCache(lambda key, seconds: woken.append(seconds), lambda: EPOCH + 3)


def test_a_new_message_about_a_waiting_pod_is_not_urgent(woken: list[float]) -> None:
    jobs = jobs_of(woken)
    jobs.pod_changed(pod("Pending"))
    unschedulable = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no room",
    }
    jobs.pod_changed(pod("Pending", conditions=[unschedulable]))
    assert woken == [CHANGE_DELAY_SECONDS, CAUSE_DELAY_SECONDS]


def test_a_pod_on_its_way_to_a_node_causes_a_reconcile_only_when_it_is_slow(woken: list[float]) -> None:
    jobs = jobs_of(woken)
    jobs.pod_changed(pod("Pending"))
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(2)}
    jobs.pod_changed(pod("Pending", spec={"nodeName": "n1"}, conditions=[placed]))
    assert woken == [CHANGE_DELAY_SECONDS, 2 + SLOW_SECONDS - 3]


def test_a_reason_that_is_shown_and_holds_no_longer_is_removed_soon(woken: list[float]) -> None:
    jobs = jobs_of(woken)
    jobs.pod_changed(pod("Pending"))
    (state,) = jobs
    state.observed.blocked = Blocked("NoSuchScheduler", "no scheduler has handled it")
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(2)}
    jobs.pod_changed(pod("Pending", spec={"nodeName": "n1"}, conditions=[placed]))
    assert woken == [CHANGE_DELAY_SECONDS, CAUSE_DELAY_SECONDS]
