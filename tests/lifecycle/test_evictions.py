"""Evictions, lost pods, and successes that are never run again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.lifecycle.simulation import START, Simulation, job, task, torch_job
from vcjob.lifecycle.indexset import IndexSet
from vcjob.lifecycle.observed import Observed
from vcjob.lifecycle.status import Eviction, Phase
from vcjob.lifecycle.step import CreatePods
from vcjob.lifecycle.task_state import bounded
from vcjob.spec.job import Job


def terminating(world: Simulation, name: str, index: int, **fields: Any) -> None:
    pod = world.at(name, index)
    assert pod is not None
    world.observed.put(msgspec.structs.replace(pod, terminating=True, since=world.now, **fields))


@pytest.mark.parametrize("evicted", [True, False])
def test_improvement_16_an_eviction_and_a_failure_are_distinguished(evicted: bool) -> None:
    policies = [
        {"event": "PodEvicted", "action": "RestartJob"},
        {"event": "PodFailed", "action": "TerminateJob"},
    ]
    world = Simulation(job(policies=policies)).running()
    world.set_pod("worker", 0, "Failed", 137, evicted=evicted)
    decision = world.tick()
    assert decision.status.phase is (Phase.RESTARTING if evicted else Phase.TERMINATING)
    assert decision.status.state.reason == ("PodEvicted" if evicted else "PodFailed")


def test_improvement_16_the_exit_code_of_an_evicted_pod_matches_no_policy() -> None:
    world = Simulation(job(policies=[{"exitCode": 137, "action": "TerminateJob"}])).running()
    world.set_pod("worker", 0, "Failed", 137, evicted=True)
    assert world.settle().phase is Phase.RUNNING


def test_a_pod_that_someone_deletes_counts_as_evicted_at_once_not_only_when_it_is_gone() -> None:
    world = Simulation(job(policies=[{"event": "PodEvicted", "action": "RestartJob"}])).running()
    terminating(world, "worker", 1)
    assert world.tick().status.phase is Phase.RESTARTING
    assert world.culprit.index == 1


def test_improvement_22_a_pod_that_was_seen_and_is_gone_was_evicted_and_is_replaced_by_its_next_attempt() -> (
    None
):
    world = Simulation(job()).running()
    world.vanish("worker", 1)
    decision = world.tick()
    assert [s for s in decision.steps if isinstance(s, CreatePods)] == [
        CreatePods("worker", IndexSet.of([1]), 1, 0, 0)
    ]
    assert decision.status.retry_count == 0
    assert [e.reason for e in world.events if e.type == "Warning"] == ["PodEvicted"]
    assert world.attempts() == {"worker-0": 0, "worker-1": 1, "worker-2": 0}
    entry = world.status.history[-1]
    assert (entry.action, entry.reason, entry.task, entry.indexes) == (
        "ReplacePod",
        "PodEvicted",
        "worker",
        "1",
    )


def test_improvement_14_a_pod_lost_while_no_controller_ran_still_fires_its_policy() -> None:
    world = Simulation(job(policies=[{"event": "PodEvicted", "action": "AbortJob"}])).running()
    world.vanish("worker", 2)
    assert world.settle().phase is Phase.ABORTED
    assert "worker-2 was evicted" in world.status.state.message


def test_a_replacement_waits_until_the_old_pod_is_gone() -> None:
    world = Simulation(job()).running()
    terminating(world, "worker", 1)
    decision = world.tick()
    assert not [s for s in decision.steps if isinstance(s, CreatePods)]
    assert (decision.status.terminating, decision.status.running) == (1, 2)
    world.reap()
    world.tick()
    assert world.attempts()["worker-1"] == 1


def test_a_pod_that_succeeds_while_it_terminates_has_succeeded() -> None:
    world = Simulation(job()).running()
    terminating(world, "worker", 1)
    world.tick()
    world.set_pod("worker", 1, "Succeeded")
    world.tick()
    world.reap()
    world.settle()
    assert (world.status.succeeded, world.at("worker", 1)) == (1, None)


def test_improvement_22_what_succeeded_is_not_run_again_after_its_node_is_lost() -> None:
    world = Simulation(job()).running()
    world.set_pod("worker", 0, "Succeeded")
    world.settle()
    world.vanish("worker", 0)
    world.settle()
    assert world.at("worker", 0) is None
    assert world.status.succeeded == 1
    world.all("Succeeded")
    assert world.settle().phase is Phase.COMPLETED


def test_a_restart_of_the_whole_job_runs_what_succeeded_again() -> None:
    world = Simulation(job()).running()
    world.set_pod("worker", 0, "Succeeded")
    world.settle()
    world.command("RestartJob")
    world.settle()
    assert world.attempts() == {"worker-0": 1, "worker-1": 1, "worker-2": 1}
    assert world.status.succeeded == 0


def test_an_eviction_with_a_timeout_acts_only_if_the_replacement_does_not_run_in_time() -> None:
    world = Simulation(
        job(policies=[{"event": "PodEvicted", "action": "TerminateJob", "timeout": "30s"}])
    ).running()
    world.vanish("worker", 0)
    world.settle()
    assert world.attempts()["worker-0"] == 1
    assert world.wake_at == START + 30
    world.now += 20
    world.set_pod("worker", 0, "Running")
    world.settle()
    assert not world.wake_at and not world.status.memory("worker").evictions
    world.vanish("worker", 1)
    world.settle()
    world.now += 10
    world.vanish("worker", 1)
    world.settle()
    assert world.attempts()["worker-1"] == 2
    assert world.wake_at == START + 50, "the replacement never ran: the first eviction counts"
    world.now += 20
    assert world.settle().phase is Phase.TERMINATED


def test_improvement_26_an_evicted_rank_that_stays_failed_fails_the_job_and_a_terminating_one_is_replaced() -> (
    None
):
    world = Simulation(torch_job()).running()
    world.set_pod("worker", 1, "Failed", evicted=True)
    assert world.settle().phase is Phase.FAILED
    assert world.status.state.message == "rank 2 (worker-1) was evicted"
    other = Simulation(torch_job()).running()
    terminating(other, "worker", 1, phase="Failed", evicted=True)
    assert other.settle().phase == "Pending"
    assert other.attempts()["worker-1"] == 1


def test_a_pod_of_a_later_attempt_than_recorded_is_the_current_one() -> None:
    """The status was lost or restored from an old copy; the pods were not."""
    world = Simulation(job(task("worker", 2)))
    world.do(CreatePods("worker", IndexSet.of([0]), 3, 2, 2))
    decision = world.tick()
    assert not [step for step in decision.steps if type(step).__name__ == "KillPods"]
    assert world.status.attempt("worker", 0) == 3
    assert world.attempts() == {"worker-0": 3, "worker-1": 0}


def test_the_deletion_of_a_jobs_pods_with_the_job_is_no_event() -> None:
    world = Simulation(job(policies=[{"event": "PodEvicted", "action": "RestartJob"}])).running()
    status = world.status
    world.job = Job(
        {
            **world.job.doc,
            "metadata": {**world.job.doc["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"},
        }
    )
    world.vanish("worker", 0)
    decision = world.decide()
    assert (decision.status, decision.steps, decision.wake_at) == (status, (), None)


def test_improvement_26_a_failed_rank_is_not_hidden_by_a_terminating_one() -> None:
    world = Simulation(torch_job()).running()
    terminating(world, "worker", 0)
    world.now += 5
    world.set_pod("worker", 1, "Failed", evicted=True)
    world.tick()
    assert (world.phase, world.culprit.rank) == ("Failed", 2)


@pytest.mark.parametrize("decided_between", [True, False])
def test_a_finished_pod_that_is_deleted_or_drained_is_not_evicted(decided_between: bool) -> None:
    """Its deletion can look like the cause of its end: the kubelet hides when it was requested."""
    world = Simulation(job(policies=[{"event": "PodEvicted", "action": "RestartJob"}])).running()
    world.set_pod("worker", 0, "Succeeded")
    if decided_between:
        world.settle()
    terminating(world, "worker", 0, phase="Failed")
    world.settle()
    assert (world.phase, world.status.succeeded, world.status.retry_count) == ("Running", 1, 0)
    world.all("Succeeded")
    assert world.settle().phase is Phase.COMPLETED


def test_a_recorded_success_survives_a_restart_of_the_backend() -> None:
    world = Simulation(job(policies=[{"event": "PodEvicted", "action": "RestartJob"}])).running()
    world.set_pod("worker", 0, "Succeeded")
    world.settle()
    pods, world.observed = list(world.observed.pods.values()), Observed()
    for pod in pods:
        ended = {"phase": "Failed", "terminating": True} if pod.index == 0 else {}
        world.observed.put(msgspec.structs.replace(pod, **ended))
    world.settle()
    assert (world.phase, world.status.succeeded, world.status.failed) == ("Running", 1, 0)


def test_evictions_beyond_a_hundred_share_the_time_of_the_earliest_near_them() -> None:
    times = [float(number) for number in range(98)] + [500.0, 501.0, 501.25, 900.0]
    evictions = tuple(Eviction(at, IndexSet.of([number])) for number, at in enumerate(times))
    assert bounded(evictions[:100]) == evictions[:100]
    kept = bounded(evictions)
    assert [str(eviction.indexes) for eviction in kept[-3:]] == ["98", "99-100", "101"]
    assert (len(kept), kept[-2].at, str(kept[0].indexes)) == (100, 501.0, "0-1")
