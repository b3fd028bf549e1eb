"""The status: its reasons and messages, its counters, its history, its size."""

from __future__ import annotations

import json
import random

import msgspec
import pytest

from tests.lifecycle.simulation import START, Simulation, job, task
from vcjob.lifecycle.decide import decide
from vcjob.lifecycle.observed import Blocked, Observed
from vcjob.lifecycle.pod import Failure, PodFact
from vcjob.lifecycle.status import (
    Phase,
    Status,
)
from vcjob.lifecycle.status_codec import rfc3339
from vcjob.lifecycle.step import CreatePods, EmitEvent


def test_improvement_18_counters_are_true_after_a_kill() -> None:
    world = Simulation(job()).running()
    world.set_pod("worker", 0, "Succeeded")
    world.settle()
    world.command("TerminateJob")
    world.tick()
    status = world.tick().status
    assert (status.running, status.succeeded, status.terminating) == (0, 1, 2)
    assert (world.settle().terminating, world.status.succeeded) == (0, 1)


@pytest.mark.parametrize(
    ("action", "phase"),
    [("AbortJob", "Aborting"), ("TerminateJob", "Terminating"), ("CompleteJob", "Completing")],
)
def test_pods_to_be_deleted_count_as_terminating_at_once(action: str, phase: str) -> None:
    world = Simulation(job(task("worker", 3))).running()
    world.set_pod("worker", 0, "Succeeded")
    world.command(action)
    status = world.tick().status
    assert (str(status.phase), status.running, status.terminating, status.succeeded) == (phase, 0, 2, 1)


def test_pods_that_a_complete_job_ends_are_not_missing() -> None:
    """They make no difference to what it has done; pods that have failed do."""
    world = Simulation(job(task("worker", 3), minSuccess=1)).running()
    assert world.status.up(3) == 3
    world.set_pod("worker", 2, "Failed")
    assert world.tick().status.up(3) == 2
    world.set_pod("worker", 0, "Succeeded")
    assert (world.tick().status.phase, world.status.up(3)) == ("Completed", 2)
    assert (world.settle().up(3), world.status.succeeded) == (2, 1)


@pytest.mark.parametrize(("action", "up"), [("AbortJob", 1), ("TerminateJob", 1), ("CompleteJob", 3)])
def test_pods_that_another_action_ends_are_missing(action: str, up: int) -> None:
    world = Simulation(job(task("worker", 3))).running()
    world.set_pod("worker", 0, "Succeeded")
    world.command(action)
    assert world.tick().status.up(3) == up
    assert world.settle().up(3) == up


def test_improvement_18_the_transition_time_changes_only_with_the_phase() -> None:
    world = Simulation(job())
    world.settle()
    world.now += 10
    world.set_pod("worker", 0, "Running")
    status = world.settle()
    assert (status.state.since, status.running) == (START, 1)
    assert "1 of the 3 pods needed are running or have ended; 2 pending" in status.state.message
    world.all("Running")
    assert world.settle().state.since == START + 10


def test_improvement_18_every_phase_has_a_reason_and_a_message() -> None:
    world = Simulation(job(task("worker", 2), maxRetry=2))
    for action in (None, "RestartJob", "AbortJob", "ResumeJob", "CompleteJob"):
        if action:
            world.command(action)
        for _ in range(4):
            state = world.tick().status.state
            assert state.reason and state.message, state
            world.reap()
            world.all("Running")


def test_improvement_20_a_rejected_creation_is_the_pending_reason_and_is_retried() -> None:
    world = Simulation(job())
    world.observed.blocked = Blocked("QuotaExceeded", "exceeded quota: gpus, used 8 of 8")
    for _ in range(20):
        decision = world.decide()
        world.store(decision)
        world.now += 60
        assert (decision.status.phase, decision.status.state.reason) == (Phase.PENDING, "QuotaExceeded")
        assert decision.status.state.message == "exceeded quota: gpus, used 8 of 8"
        assert [str(s.indexes) for s in decision.steps if isinstance(s, CreatePods)] == ["0-2"]
    world.observed.blocked = None
    assert world.settle().state.reason == "PodsPending"


def test_no_pods_are_created_while_the_gang_waits_in_its_queue() -> None:
    world = Simulation(job())
    world.observed.held = Blocked("PodGroupPending", "queue default is full")
    world.settle()
    assert (world.born, world.status.state.reason) == (set(), "PodGroupPending")
    world.observed.held = None
    world.settle()
    assert len(world.born) == 3


def test_an_unchanged_job_gives_the_same_status_object_and_no_event() -> None:
    world = Simulation(job()).running()
    status = world.status
    from vcjob.lifecycle.decide import decide

    decision = decide(world.job, status, world.observed, world.now + 5)
    assert decision.status is status
    assert decision.steps == ()


def test_every_phase_emits_one_event() -> None:
    world = Simulation(
        job(task("worker", 1), maxRetry=2, policies=[{"event": "PodFailed", "action": "RestartJob"}])
    )
    for _ in range(2):
        world.running()
        world.set_pod("worker", 0, "Failed", 1)
        world.settle()
    events = [(event.type, event.reason, event.message.split(":")[0]) for event in world.events]
    assert events == [
        ("Normal", "MinAvailableReached", "Running"),
        ("Warning", "ExecuteAction", "Restarting"),
        ("Normal", "Restarted", "Pending"),
        ("Normal", "MinAvailableReached", "Running"),
        ("Warning", "ExecuteAction", "Restarting"),
        ("Warning", "MaxRetryReached", "Failed"),
    ]
    assert world.events[2].message == "Pending: starting run 2 of at most 2"


def test_the_history_records_a_resume() -> None:
    world = Simulation(job()).running()
    world.command("AbortJob")
    world.settle()
    world.now += 9
    world.command("ResumeJob")
    world.settle()
    assert [(run.action, run.at, run.task, run.retry) for run in world.status.history] == [
        ("ResumeJob", START + 9, "", 0)
    ]


def test_the_pending_message_counts_what_runs_and_what_has_ended() -> None:
    world = Simulation(job(task("worker", 5)))
    world.settle()
    for index, phase in enumerate(["Running", "Succeeded", "Failed", "Unknown"]):
        world.set_pod("worker", index, phase)
    assert (
        world.settle().state.message
        == "3 of the 5 pods needed are running or have ended; 1 pending; 1 unknown"
    )


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Terminated", "Aborted"])
@pytest.mark.parametrize("with_conditions", [True, False])
def test_the_ttl_of_a_job_that_ended_under_volcano_counts_from_its_condition(
    phase: str, with_conditions: bool
) -> None:
    """Volcano sets the time of the state again with every write; the time of the condition stays."""
    end, last_write = (rfc3339(START + seconds) for seconds in (10, 60))
    conditions = [
        {"status": "Running", "lastTransitionTime": rfc3339(START)},
        {"status": phase, "lastTransitionTime": end},
    ]
    world = Simulation(job(ttlSecondsAfterFinished=100))
    world.stored = json.dumps(
        {
            "state": {"phase": phase, "lastTransitionTime": last_write},
            "conditions": conditions if with_conditions else [],
        }
    )
    ended = 10 if with_conditions else 60
    world.now = START + ended + 99
    world.tick()
    assert (world.deleted, world.wake_at) == (False, START + ended + 100)
    world.now += 1
    world.tick()
    assert world.deleted


@pytest.mark.long
def test_losing_half_of_20000_pods_20_times_keeps_the_status_small() -> None:
    """etcd stores at most 1.5 MB in one object."""
    size, choice = 20_000, random.Random(7)
    the_job, status, observed = job(task("worker", size), minAvailable=1), Status(), Observed()
    for _ in range(21):
        decision = decide(the_job, status, observed, START)
        status = decision.status
        for step in decision.steps:
            if isinstance(step, CreatePods):
                for index in step.indexes:
                    observed.put(PodFact("worker", index, f"{index}-{step.attempt}", step.attempt))
        status = decide(the_job, status, observed, START).status
        for pod in choice.sample(list(observed.pods.values()), size // 2):
            observed.drop(pod.uid)
    document = json.dumps(status.to_kube())
    assert len(document) < 100_000
    assert len(msgspec.json.encode(status.history)) < 20_000
    entry = next(entry for entry in status.history if entry.indexes.endswith(" in all)"))
    assert len(entry.indexes) < 250 and " in all)" in entry.message
    (event,) = [step for step in decision.steps if isinstance(step, EmitEvent)]
    assert " in all)" in event.message and len(event.message) <= 2000


def test_the_history_is_bounded_in_bytes_whatever_containers_report() -> None:
    world = Simulation(job(policies=[{"event": "PodFailed", "action": "RestartPod"}], maxRetry=99)).running()
    for _ in range(30):
        failure = Failure("main", 1, reason="R" * 5000, message="\n\u2028" * 50_000)
        world.set_pod("worker", 0, "Failed", failure=failure)
        world.settle()
        world.all("Running")
        world.settle()
    assert len(world.status.history) == 20
    assert len(json.dumps(world.status.to_kube())) < 250_000
