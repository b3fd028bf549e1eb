"""What the controller knows of Jobs, from changes alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.cluster.controller.pods import OWNER, ended, pod
from vcjob.cluster.controller.cache.job_cache import SETTLE_SECONDS, WORDS_SETTLE_SECONDS, JobCache
from vcjob.cluster.controller.cache.job_state import JobKey, JobState
from vcjob.cluster.resources import PartialCommand, PartialGroup, PartialJob, PartialSpecced
from vcjob.lifecycle.indexset import IndexSet
from vcjob.lifecycle.status import Status, TaskMemory

KEY = ("n", "job-uid")


class Woken(list[JobKey]):
    """Who is to be looked at, and in how many seconds at the latest."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def __call__(self, key: JobKey, seconds: float) -> None:
        self.append(key)
        self.seconds.append(seconds)


@pytest.fixture
def woken() -> Woken:
    return Woken()


@pytest.fixture
def board(woken: Woken) -> JobCache:
    return JobCache(woken)


def lean(version: int = 1, *, uid: str = "job-uid", name: str = "j", generation: int = 1) -> PartialJob:
    document = {
        "metadata": {"name": name, "namespace": "n", "uid": uid, "resourceVersion": str(version),
                     "generation": generation},
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
) -> PartialCommand:
    meta = {"name": "cmd", "namespace": namespace, "uid": uid, "resourceVersion": str(version)}
    return msgspec.convert({"metadata": meta, "target": target, "action": action}, PartialCommand)


def entry_of(board: JobCache) -> JobState:
    entry = board.get(KEY)
    assert entry is not None
    return entry


def test_an_older_view_than_our_own_write_is_left_out(board: JobCache) -> None:
    board.job_changed(lean(5))
    board.job_changed(lean(4, generation=9))
    found = entry_of(board).lean
    assert found is not None and found.metadata.generation == 1


def test_pods_count_by_their_owners_uid(board: JobCache) -> None:
    board.job_changed(lean())
    board.pod_changed(pod("Running"))
    board.pod_changed(pod("Running", uid="x", index=1, metadata={"ownerReferences": []}))
    board.pod_changed(
        pod("Running", uid="y", index=2, metadata={"ownerReferences": [{**OWNER, "uid": "other"}]})
    )
    board.pod_changed(
        pod("Running", uid="z", index=3, metadata={"ownerReferences": [{**OWNER, "controller": False}]})
    )
    assert set(entry_of(board).observed.pods) == {("a", 0, 0)}


def test_a_pod_that_is_gone_is_forgotten(board: JobCache, woken: Woken) -> None:
    board.job_changed(lean())
    board.pod_changed(pod("Running"))
    entry_of(board).status = Status(tasks={"a": TaskMemory(seen=IndexSet.span(0, 1))})
    woken.clear()
    board.pod_gone(pod("Running"))
    assert not entry_of(board).observed.pods
    assert woken == [KEY]


def test_that_a_pod_was_there_is_kept_until_it_is_written_down(board: JobCache) -> None:
    board.job_changed(lean())
    board.pod_changed(pod("Running"))
    entry = entry_of(board)
    entry.status = Status()
    board.pod_gone(pod("Running"))
    assert entry.observed.pods["a", 0, 0].terminating
    assert entry.forget(list(entry.departed))
    assert not entry.observed.pods


def test_how_a_pod_ended_is_kept_until_it_is_written_down(board: JobCache) -> None:
    board.job_changed(lean())
    board.pod_changed(pod("Running"))
    board.pod_gone(pod("Succeeded", containerStatuses=[ended("c", 0, 5)]))
    entry = entry_of(board)
    assert entry.observed.pods["a", 0, 0].phase == "Succeeded"
    assert entry.forget(list(entry.departed))
    assert not entry.observed.pods


def test_nothing_is_left_of_a_job_when_all_of_it_is_gone(board: JobCache) -> None:
    board.job_changed(lean())
    board.pod_changed(pod("Running"))
    board.object_changed("Service", service(1))
    board.job_gone(lean(9))
    assert len(board) == 1, "its pods are still there"
    board.pod_gone(pod("Running"))
    board.object_gone("Service", service(1))
    assert len(board) == 0


def test_a_job_made_anew_under_its_name_is_another(board: JobCache) -> None:
    board.job_changed(lean(1))
    board.pod_changed(pod("Running"))
    board.job_gone(lean(2))
    board.job_changed(lean(3, uid="new"))
    new = board.get(("n", "new"))
    assert new is not None and not new.observed.pods
    assert board.named("n", "j") is new


def test_only_a_change_of_content_needs_a_look(board: JobCache, woken: Woken) -> None:
    board.job_changed(lean())
    entry = entry_of(board)
    board.object_changed("Service", service(2))
    entry.dirty = set()
    woken.clear()
    board.object_changed("Service", service(3))
    assert not entry.dirty and not woken
    board.object_changed("Service", service(4, selector="y"))
    assert entry.dirty == {("Service", "j")} and woken == [KEY]


def test_our_own_write_is_no_change(board: JobCache) -> None:
    board.job_changed(lean())
    entry = entry_of(board)
    entry.owned["Service", "j"] = service(7, selector="y")
    entry.dirty = set()
    board.object_changed("Service", service(6, selector="x"))
    board.object_changed("Service", service(7, selector="y"))
    assert not entry.dirty


def test_who_waits_for_a_name_is_woken_when_it_is_free(board: JobCache, woken: Woken) -> None:
    board.job_changed(lean())
    entry = entry_of(board)
    entry.retry_at = 99.0
    board.wait_for(entry, "Service", "j")
    woken.clear()
    board.object_gone("Service", service(1, owner={**OWNER, "uid": "other"}))
    assert woken == [KEY] and entry.retry_at == 0.0


@pytest.mark.parametrize("uid", ["job-uid", ""])
def test_a_command_finds_its_job_by_uid_or_by_name(board: JobCache, uid: str) -> None:
    board.job_changed(lean())
    board.command_added(command({"kind": "Job", "name": "j", "uid": uid}))
    assert [c.action for c in entry_of(board).observed.commands.values()] == ["AbortJob"]


def test_a_command_for_an_earlier_job_of_the_name_is_not_obeyed(board: JobCache) -> None:
    board.job_changed(lean())
    board.command_added(command({"kind": "Job", "name": "j", "uid": "earlier"}))
    assert not entry_of(board).observed.commands


def test_a_command_of_another_namespace_is_not_obeyed(board: JobCache) -> None:
    board.job_changed(lean())
    board.command_added(command({"kind": "Job", "name": "j", "uid": "job-uid"}, namespace="theirs"))
    assert not entry_of(board).observed.commands


def test_a_command_that_comes_before_its_job_waits_for_it(board: JobCache) -> None:
    board.command_added(command({"kind": "Job", "name": "j", "uid": "job-uid"}))
    board.job_changed(lean())
    assert list(entry_of(board).observed.commands) == ["c"]
    board.command_gone(command({"kind": "Job", "name": "j", "uid": "job-uid"}))
    assert not entry_of(board).observed.commands


def test_a_change_that_overtook_our_own_write_is_not_lost(board: JobCache) -> None:
    board.job_changed(lean(1))
    board.job_changed(lean(3, generation=2))
    entry = entry_of(board)
    entry.wrote(lean(2), Status())
    assert entry.lean is not None and entry.lean.metadata.generation == 2
    assert entry.status is None, "it is read from the newer one"


def test_our_own_write_is_known_without_reading_it(board: JobCache) -> None:
    board.job_changed(lean(1))
    entry = entry_of(board)
    status = Status(version=7)
    entry.wrote(lean(2), status)
    board.job_changed(lean(2))
    assert entry.status is status


def test_commands_are_obeyed_in_the_order_in_which_they_were_given(board: JobCache) -> None:
    board.job_changed(lean())
    target = {"kind": "Job", "name": "j", "uid": "job-uid"}
    board.command_added(command(target, "second", 8, "ResumeJob"))
    board.command_added(command(target, "first", 7, "AbortJob"))
    assert [c.action for c in entry_of(board).observed.commands.values()] == ["AbortJob", "ResumeJob"]


def test_a_pod_event_that_says_nothing_new_wakes_nobody(board: JobCache, woken: Woken) -> None:
    board.pod_changed(pod("Running", spec={"nodeName": "a"}))
    board.pod_changed(pod("Running", spec={"nodeName": "a"}))
    assert woken.seconds == [SETTLE_SECONDS]


def test_new_words_about_a_waiting_pod_are_not_urgent(board: JobCache, woken: Woken) -> None:
    board.pod_changed(pod("Pending"))
    unschedulable = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no room",
    }
    board.pod_changed(pod("Pending", conditions=[unschedulable]))
    assert woken.seconds == [SETTLE_SECONDS, WORDS_SETTLE_SECONDS]


def test_a_pod_group_that_is_let_in_is_urgent(board: JobCache, woken: Woken) -> None:
    for version, phase in ((1, "Pending"), (2, "Inqueue")):
        meta = {
            "name": "j",
            "namespace": "n",
            "uid": "g",
            "resourceVersion": str(version),
            "ownerReferences": [OWNER],
        }
        text = msgspec.json.encode({"metadata": meta, "spec": {}, "status": {"phase": phase}})
        board.object_changed("PodGroup", msgspec.json.decode(text, type=PartialGroup))
    assert woken.seconds[-1] == 0.0


def test_what_claims_a_jobs_uid_in_another_namespace_is_not_the_jobs(board: JobCache, woken: Woken) -> None:
    elsewhere = pod("Running", metadata={"namespace": "elsewhere"})
    board.pod_changed(elsewhere)  # as in a first list, which comes in no order
    board.job_changed(lean())
    board.pod_changed(elsewhere)
    stranger = service(9)
    stranger.metadata.namespace = "elsewhere"
    board.object_changed("Service", stranger)
    entry = entry_of(board)
    assert not entry.observed.pods and not entry.owned
    board.object_changed("Service", service(2))
    board.object_gone("Service", stranger)
    assert entry.owned
