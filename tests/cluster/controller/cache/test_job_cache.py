"""What the controller knows of Jobs, from changes alone."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from tests.cluster.controller.pods import OWNER, ended, pod
from vcjob.cluster.controller.cache.job_cache import CHANGE_DELAY_SECONDS, JobCache
from vcjob.cluster.controller.cache.job_state import JobState, QueueKey
from vcjob.cluster.resources import PartialCommand, PartialGroup, PartialJob, PartialSpecced
from vcjob.kube.controller.queue import WorkQueue
from vcjob.lifecycle.indexset import IndexSet
from vcjob.lifecycle.observed import Command
from vcjob.lifecycle.status import Status, TaskMemory

KEY = ("n", "job-uid")


class Woken(list[QueueKey]):
    """Which Jobs are to be reconciled, and in how many seconds at the latest."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def __call__(self, key: QueueKey, seconds: float) -> None:
        self.append(key)
        self.seconds.append(seconds)


@pytest.fixture
def woken() -> Woken:
    return Woken()


@pytest.fixture
def jobs(woken: Woken) -> JobCache:
    return JobCache(woken)


def lean(
    version: int = 1,
    *,
    uid: str = "job-uid",
    name: str = "j",
    generation: int = 1,
    created: str | None = None,
) -> PartialJob:
    document = {
        "metadata": {"name": name, "namespace": "n", "uid": uid, "resourceVersion": str(version),
                     "generation": generation, "creationTimestamp": created},
        "spec": {"tasks": []},
    }  # fmt: skip
    return msgspec.json.decode(msgspec.json.encode(document), type=PartialJob)


def service(
    version: int, *, uid: str = "s", selector: str = "x", owner: dict[str, Any] = OWNER
) -> PartialSpecced:
    document = {
        "metadata": {"name": "j", "namespace": "n", "uid": uid, "resourceVersion": str(version),
                     "ownerReferences": [owner]},
        "spec": {"selector": {"app": selector}},
    }  # fmt: skip
    return msgspec.json.decode(msgspec.json.encode(document), type=PartialSpecced)


def command(
    target: dict[str, Any],
    uid: str = "c",
    version: int = 1,
    action: str = "AbortJob",
    *,
    namespace: str = "n",
    created: str | None = None,
) -> PartialCommand:
    meta = {"name": "cmd", "namespace": namespace, "uid": uid, "resourceVersion": str(version)}
    if created:
        meta["creationTimestamp"] = created
    return msgspec.convert({"metadata": meta, "target": target, "action": action}, PartialCommand)


def state_of(jobs: JobCache) -> JobState:
    state = jobs.get(KEY)
    assert state is not None
    return state


def commands_of(jobs: JobCache) -> list[Command]:
    """As the lifecycle gets them."""
    state = state_of(jobs)
    state.commands.refresh()
    return list(state.observed.commands.values())


def test_a_report_older_than_our_own_write_is_ignored(jobs: JobCache) -> None:
    jobs.job_changed(lean(5))
    jobs.job_changed(lean(4, generation=9))
    found = state_of(jobs).resource
    assert found is not None and found.metadata.generation == 1


def test_pods_count_by_their_owners_uid(jobs: JobCache) -> None:
    jobs.job_changed(lean())
    jobs.pod_changed(pod("Running"))
    jobs.pod_changed(pod("Running", uid="x", index=1, metadata={"ownerReferences": []}))
    jobs.pod_changed(
        pod("Running", uid="y", index=2, metadata={"ownerReferences": [{**OWNER, "uid": "other"}]})
    )
    jobs.pod_changed(
        pod("Running", uid="z", index=3, metadata={"ownerReferences": [{**OWNER, "controller": False}]})
    )
    assert set(state_of(jobs).observed.pods) == {("a", 0, 0)}


def test_a_pod_that_is_gone_is_forgotten(jobs: JobCache, woken: Woken) -> None:
    jobs.job_changed(lean())
    jobs.pod_changed(pod("Running"))
    state_of(jobs).status = Status(tasks={"a": TaskMemory(seen=IndexSet.span(0, 1))})
    woken.clear()
    jobs.pod_gone(pod("Running"))
    assert not state_of(jobs).observed.pods
    assert woken == [KEY]


def test_that_a_pod_existed_is_kept_until_it_is_written(jobs: JobCache) -> None:
    jobs.job_changed(lean())
    jobs.pod_changed(pod("Running"))
    state = state_of(jobs)
    state.status = Status()
    jobs.pod_gone(pod("Running"))
    assert state.observed.pods["a", 0, 0].terminating
    assert state.pods.forget_departed(list(state.pods.departed))
    assert not state.observed.pods


def test_how_a_pod_ended_is_kept_until_it_is_written(jobs: JobCache) -> None:
    jobs.job_changed(lean())
    jobs.pod_changed(pod("Running"))
    jobs.pod_gone(pod("Succeeded", containerStatuses=[ended("c", 0, 5)]))
    state = state_of(jobs)
    assert state.observed.pods["a", 0, 0].phase == "Succeeded"
    assert state.pods.forget_departed(list(state.pods.departed))
    assert not state.observed.pods


def test_nothing_is_left_of_a_job_when_all_of_it_is_gone(jobs: JobCache) -> None:
    jobs.job_changed(lean())
    jobs.pod_changed(pod("Running"))
    jobs.object_changed("Service", service(1))
    jobs.job_gone(lean(9))
    assert len(jobs) == 1, "its pods are still there"
    jobs.pod_gone(pod("Running"))
    jobs.object_gone("Service", service(1))
    assert len(jobs) == 0


def test_a_job_created_again_under_its_name_is_another_job(jobs: JobCache) -> None:
    jobs.job_changed(lean(1))
    jobs.pod_changed(pod("Running"))
    jobs.job_gone(lean(2))
    jobs.job_changed(lean(3, uid="new"))
    new = jobs.get(("n", "new"))
    assert new is not None and not new.observed.pods
    assert jobs.named("n", "j") is new


def test_a_status_write_that_is_answered_after_the_deletion_does_not_restore_the_job(jobs: JobCache) -> None:
    jobs.job_changed(lean(1))
    jobs.pod_changed(pod("Running"))
    state = state_of(jobs)
    state.writing = True
    jobs.job_gone(lean(3))
    state.status_written(lean(2), Status())
    jobs.write_answered(state)
    assert state.resource is None and state.unsaved is None


def test_a_job_restored_from_a_backup_is_known_again_although_its_version_is_older(
    jobs: JobCache, woken: Woken
) -> None:
    jobs.job_changed(lean(100))
    jobs.pod_changed(pod("Running"))
    jobs.job_gone(lean(101))
    woken.clear()
    jobs.job_changed(lean(50))
    assert state_of(jobs).resource is not None
    assert jobs.named("n", "j") is state_of(jobs) and woken == [KEY]


def test_only_a_change_of_content_needs_a_check(jobs: JobCache, woken: Woken) -> None:
    jobs.job_changed(lean())
    state = state_of(jobs)
    jobs.object_changed("Service", service(2))
    state.objects.dirty = set()
    woken.clear()
    jobs.object_changed("Service", service(3))
    assert not state.objects.dirty and not woken
    jobs.object_changed("Service", service(4, selector="y"))
    assert state.objects.dirty == {("Service", "j")} and woken == [KEY]


def test_our_own_write_is_no_change(jobs: JobCache) -> None:
    jobs.job_changed(lean())
    state = state_of(jobs)
    state.objects.owned["Service", "j"] = service(7, selector="y")
    state.objects.dirty = set()
    jobs.object_changed("Service", service(6, selector="x"))
    jobs.object_changed("Service", service(7, selector="y"))
    assert not state.objects.dirty


def test_a_job_that_waits_for_a_name_is_reconciled_when_it_is_free(jobs: JobCache, woken: Woken) -> None:
    jobs.job_changed(lean())
    state = state_of(jobs)
    state.retry.retry_at = 99.0
    jobs.wait_for_name(state, "Service", "j")
    woken.clear()
    jobs.object_gone("Service", service(1, owner={**OWNER, "uid": "other"}))
    assert woken == [KEY] and state.retry.retry_at == 0.0


def test_a_deleted_job_waits_for_no_name(jobs: JobCache, woken: Woken) -> None:
    jobs.job_changed(lean())
    jobs.wait_for_name(state_of(jobs), "Service", "j")
    jobs.job_gone(lean())
    woken.clear()
    jobs.object_gone("Service", service(1, owner={**OWNER, "uid": "other"}))
    assert woken == []


async def test_nothing_of_a_deleted_job_stays_in_the_queue() -> None:
    """Its deadline may be days away, and thousands of Jobs come and go until then."""
    queue: WorkQueue[QueueKey] = WorkQueue()
    jobs = JobCache(queue.add_after, discarded=queue.drop)
    jobs.job_changed(lean())
    queue.add_after(KEY, 604_800)
    jobs.pod_changed(pod("Running"))
    jobs.job_gone(lean())
    assert queue.delayed == 1, "its pods are deleted first"
    jobs.pod_gone(pod("Running"))
    assert (queue.delayed, len(queue), len(jobs)) == (0, 0, 0)


@pytest.mark.parametrize("uid", ["job-uid", ""])
def test_a_command_finds_its_job_by_uid_or_by_name(jobs: JobCache, uid: str) -> None:
    jobs.job_changed(lean())
    jobs.command_added(command({"kind": "Job", "name": "j", "uid": uid}))
    assert [c.action for c in commands_of(jobs)] == ["AbortJob"]


def test_a_command_for_an_earlier_job_of_the_name_is_ignored(jobs: JobCache) -> None:
    jobs.job_changed(lean())
    jobs.command_added(command({"kind": "Job", "name": "j", "uid": "earlier"}))
    assert not commands_of(jobs)


def test_a_command_of_another_namespace_is_ignored(jobs: JobCache) -> None:
    jobs.job_changed(lean())
    jobs.command_added(command({"kind": "Job", "name": "j", "uid": "job-uid"}, namespace="theirs"))
    assert not commands_of(jobs)


def test_a_command_that_comes_before_its_job_waits_for_it(jobs: JobCache) -> None:
    jobs.command_added(command({"kind": "Job", "name": "j", "uid": "job-uid"}))
    jobs.job_changed(lean())
    assert [c.uid for c in commands_of(jobs)] == ["c"]
    jobs.command_gone(command({"kind": "Job", "name": "j", "uid": "job-uid"}))
    assert not commands_of(jobs)


def test_a_command_without_uid_never_acts_on_a_later_job_of_the_name(jobs: JobCache) -> None:
    target = {"kind": "Job", "name": "j"}
    jobs.command_added(command(target, created="2026-01-01T00:00:00Z"))
    jobs.job_changed(lean(created="2026-01-01T00:00:01Z"))
    assert not commands_of(jobs)
    assert [c.metadata.uid for c in jobs.unmatched.older_than(0.0)] == ["c"]
    jobs.command_added(command(target, "later", created="2026-01-01T00:00:02Z"))
    assert [c.uid for c in commands_of(jobs)] == ["later"]


def test_commands_of_a_deleted_job_are_kept_for_deletion(jobs: JobCache) -> None:
    jobs.job_changed(lean())
    jobs.command_added(command({"kind": "Job", "name": "j"}))
    jobs.job_gone(lean(2))
    assert [c.metadata.uid for c in jobs.unmatched.older_than(0.0)] == ["c"]
    jobs.command_gone(command({"kind": "Job", "name": "j"}))
    assert not jobs.unmatched.older_than(0.0)


def test_a_change_that_overtook_our_own_write_is_not_lost(jobs: JobCache) -> None:
    jobs.job_changed(lean(1))
    jobs.job_changed(lean(3, generation=2))
    state = state_of(jobs)
    state.status_written(lean(2), Status())
    assert state.resource is not None and state.resource.metadata.generation == 2
    assert state.status is None, "it is read from the newer one"


def test_our_own_write_is_known_without_reading_it(jobs: JobCache) -> None:
    jobs.job_changed(lean(1))
    state = state_of(jobs)
    status = Status(version=7)
    state.status_written(lean(2), status)
    jobs.job_changed(lean(2))
    assert state.status is status


def test_commands_are_executed_in_the_order_of_their_creation(jobs: JobCache) -> None:
    jobs.job_changed(lean())
    target = {"kind": "Job", "name": "j", "uid": "job-uid"}
    jobs.command_added(command(target, "second", 8, "ResumeJob"))
    jobs.command_added(command(target, "first", 7, "AbortJob"))
    assert [c.action for c in commands_of(jobs)] == ["AbortJob", "ResumeJob"]


def test_a_pod_event_without_news_causes_no_reconcile(jobs: JobCache, woken: Woken) -> None:
    jobs.pod_changed(pod("Running", spec={"nodeName": "a"}))
    jobs.pod_changed(pod("Running", spec={"nodeName": "a"}))
    assert woken.seconds == [CHANGE_DELAY_SECONDS]


def test_a_pod_group_that_is_admitted_is_urgent(jobs: JobCache, woken: Woken) -> None:
    for version, phase in ((1, "Pending"), (2, "Inqueue")):
        meta = {
            "name": "j",
            "namespace": "n",
            "uid": "g",
            "resourceVersion": str(version),
            "ownerReferences": [OWNER],
        }
        text = msgspec.json.encode({"metadata": meta, "spec": {}, "status": {"phase": phase}})
        jobs.object_changed("PodGroup", msgspec.json.decode(text, type=PartialGroup))
    assert woken.seconds[-1] == 0.0


def test_what_claims_a_jobs_uid_in_another_namespace_is_not_the_jobs(jobs: JobCache, woken: Woken) -> None:
    elsewhere = pod("Running", metadata={"namespace": "elsewhere"})
    jobs.pod_changed(elsewhere)  # as in a first list, which comes in no order
    jobs.job_changed(lean())
    jobs.pod_changed(elsewhere)
    stranger = service(9)
    stranger.metadata.namespace = "elsewhere"
    jobs.object_changed("Service", stranger)
    state = state_of(jobs)
    assert not state.observed.pods and not state.objects.owned
    jobs.object_changed("Service", service(2))
    jobs.object_gone("Service", stranger)
    assert state.objects.owned


def test_a_job_keeps_its_own_name_although_a_pod_claims_it_under_another(jobs: JobCache) -> None:
    """Pods are listed before Jobs, and anybody may write an owner reference."""
    jobs.pod_changed(pod("Running", metadata={"ownerReferences": [{**OWNER, "name": "other"}]}))
    jobs.job_changed(lean(name="j"))
    assert state_of(jobs).name == "j"


class ChangingState:
    """A Job that changes whenever its status is read: another one is created, and then its own status is gone."""

    def __init__(self, jobs: JobCache) -> None:
        self._jobs = jobs
        self._status: Status | None = Status()

    @property
    def status(self) -> Status | None:
        self._jobs.job_changed(lean(uid=f"new{len(self._jobs)}"))
        seen, self._status = self._status, None
        return seen


def test_jobs_are_counted_on_a_thread_while_they_come_and_go(jobs: JobCache) -> None:
    jobs._states[KEY] = cast(JobState, ChangingState(jobs))
    jobs.job_changed(lean(uid="other"))
    assert jobs.phases() == {"Pending": 1}
    assert len(jobs) == 3, "one Job came while the others were counted"
