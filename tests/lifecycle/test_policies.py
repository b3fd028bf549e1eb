"""Policies: which one answers, when it acts, and what cancels it."""

from __future__ import annotations

import pytest

from tests.lifecycle.world import START, World, job, task, torch_job
from vcjob.lifecycle.indexset import IndexSet
from vcjob.lifecycle.pod import Failure
from vcjob.lifecycle.status import Phase, Status
from vcjob.lifecycle.step import KillPods


def policy(event=None, action="TerminateJob", **fields):
    return {"action": action, **({"event": event} if event else {}), **fields}


def world_with(*policies, task_policies=(), **spec) -> World:
    worker = task("worker", 3, policies=list(task_policies))
    return World(job(worker, task("other", 1), policies=list(policies), **spec)).running()


def test_a_policy_of_the_task_goes_before_one_of_the_job():
    world = world_with(policy("PodFailed", "CompleteJob"), task_policies=[policy("PodFailed", "AbortJob")])
    world.set("worker", 0, "Failed", 1)
    assert world.settle().phase is Phase.ABORTED
    assert "policy of task worker: AbortJob" in world.status.state.message
    assert world.status.suspended_by == "policy"


def test_a_policy_of_the_job_answers_where_the_task_has_none_that_matches():
    world = world_with(policy("PodFailed", "CompleteJob"), task_policies=[policy("PodEvicted", "AbortJob")])
    world.set("worker", 0, "Failed", 1)
    assert world.settle().phase is Phase.COMPLETED
    assert "policy of the job: CompleteJob" in world.status.state.message


def test_a_policy_of_another_task_does_not_answer():
    world = world_with(task_policies=[policy("PodFailed")])
    world.set("other", 0, "Failed", 1)
    assert world.settle().phase is Phase.RUNNING


def test_the_first_policy_that_matches_wins():
    world = world_with(
        policy(exitCode=3, action="CompleteJob"), policy("PodFailed", "AbortJob"), policy("*", "TerminateJob")
    )
    world.set("worker", 0, "Failed", 4)
    assert world.settle().phase is Phase.ABORTED
    again = world_with(
        policy(exitCode=3, action="CompleteJob"), policy("PodFailed", "AbortJob"), policy("*", "TerminateJob")
    )
    again.set("worker", 0, "Failed", 3)
    assert again.settle().phase is Phase.COMPLETED


def test_a_list_of_events_matches_each_of_them():
    for event in ("PodFailed", "PodEvicted"):
        world = world_with({"events": ["PodFailed", "PodEvicted"], "action": "TerminateJob"})
        world.set("worker", 0, "Failed", 1, evicted=event == "PodEvicted")
        assert world.settle().phase is Phase.TERMINATED
        assert world.status.state.reason == event


@pytest.mark.parametrize(
    ("action", "end"),
    [
        ("AbortJob", "Aborted"),
        ("RestartJob", "Pending"),
        ("RestartTask", "Pending"),
        ("RestartPod", "Pending"),
        ("RestartPartition", "Pending"),
        ("TerminateJob", "Terminated"),
        ("CompleteJob", "Completed"),
        ("ResumeJob", "Running"),
    ],
)
def test_an_exit_code_leads_to_each_action(action, end):
    world = world_with(policy(exitCode=42, action=action))
    world.set("worker", 2, "Failed", 41)
    assert world.settle().phase is Phase.RUNNING
    world.set("worker", 1, "Failed", 42)
    assert world.settle().phase == end
    assert world.status.retry_count == (1 if action.startswith("Restart") else 0)


def test_row_15_the_exit_code_is_that_of_the_container_that_failed_first_init_included():
    world = world_with(policy(exitCode=9, action="CompleteJob"))
    world.set("worker", 0, "Failed", failure=Failure("fetch", 9, init=True))
    assert world.settle().phase is Phase.COMPLETED
    assert "init container fetch exited with code 9" in world.status.state.message


def test_a_failure_without_a_match_does_not_hide_a_later_one_that_has():
    world = world_with(policy(exitCode=137, action="RestartJob"))
    world.set("worker", 0, "Failed", 1)
    world.now += 5
    world.set("worker", 1, "Failed", 137)
    assert world.tick().status.phase is Phase.RESTARTING
    assert world.status.culprit.index == 1


def test_the_earliest_of_several_failures_is_the_culprit():
    world = world_with(policy("PodFailed"))
    world.set("worker", 2, "Failed", 2, since=START + 10)
    world.set("worker", 0, "Failed", 3, since=START + 12)
    world.set("other", 0, "Failed", 4, since=START + 11)
    world.tick()
    assert (world.status.culprit.task, world.status.culprit.index) == ("worker", 2)
    assert world.status.culprit.failure.exit_code == 2


def test_pods_that_failed_together_are_restarted_together_for_one_retry():
    world = world_with(policy("PodFailed", "RestartPod"), maxRetry=3)
    world.set("worker", 0, "Failed", 1)
    world.set("worker", 2, "Failed", 1)
    decision = world.tick()
    assert decision.status.retry_count == 1
    assert [s for s in decision.steps if isinstance(s, KillPods)] == [
        KillPods("worker", IndexSet.of([0, 2]), 0, "Replaced")
    ]


def test_task_completed_needs_every_replica():
    world = world_with(task_policies=[policy("TaskCompleted", "CompleteJob")])
    world.set("worker", 0, "Succeeded")
    world.set("worker", 1, "Succeeded")
    assert world.settle().phase is Phase.RUNNING
    world.set("worker", 2, "Succeeded")
    decision = world.tick()
    assert (decision.status.phase, decision.status.state.reason) == (Phase.COMPLETING, "TaskCompleted")
    assert world.settle().phase is Phase.COMPLETED
    assert world.status.succeeded == 3


def test_task_completed_goes_before_failures_of_the_same_second():
    """A worker that loses its master because the master is done is no failure of the job."""
    tasks = task("master", 1, policies=[policy("TaskCompleted", "CompleteJob")]), task("worker", 2)
    world = World(torch_job(tasks=tasks)).running()
    world.set("worker", 1, "Failed", 1, since=START + 30.0)
    world.set("master", 0, "Succeeded", since=START + 30.4)
    assert world.settle().phase is Phase.COMPLETED


def test_a_failure_of_an_earlier_second_goes_before_task_completed():
    tasks = task("master", 1, policies=[policy("TaskCompleted", "CompleteJob")]), task("worker", 2)
    world = World(torch_job(tasks=tasks)).running()
    world.set("worker", 1, "Failed", 1, since=START + 29.0)
    world.set("master", 0, "Succeeded", since=START + 30.4)
    assert world.settle().phase is Phase.FAILED


@pytest.mark.parametrize(("max_retry", "needed"), [(None, 3), (5, 5), (1, 1), (0, 1)])
def test_task_failed_when_the_restarts_of_its_pods_together_reach_its_max_retry(max_retry, needed):
    fields = {} if max_retry is None else {"maxRetry": max_retry}
    worker = task("worker", 2, policies=[policy("TaskFailed")], **fields)
    world = World(job(worker, task("other", 1))).running()
    world.set("other", 0, "Running", restarts=50)
    for restarts in range(1, needed):
        world.set("worker", restarts % 2, "Running", restarts=restarts // 2 + restarts % 2)
    assert world.settle().phase is Phase.RUNNING
    world.set("worker", 0, "Running", restarts=needed // 2)
    world.set("worker", 1, "Running", restarts=needed - needed // 2)
    assert world.settle().phase is Phase.TERMINATED
    assert f"restarted their containers {needed} times" in world.status.state.message


def test_pod_pending_acts_after_its_timeout_counted_from_the_pods_creation():
    world = World(job(policies=[policy("PodPending", "AbortJob", timeout="1m")]))
    world.settle()
    world.now += 30
    assert world.settle().phase is Phase.PENDING
    assert world.wake_at == START + 60
    world.set("worker", 0, "Running")
    world.set("worker", 1, "Running")
    world.now += 29.9
    assert world.settle().phase is Phase.PENDING
    world.now += 0.1
    assert world.settle().phase is Phase.ABORTED
    assert world.status.state.message == "worker-2 is still pending; policy of the job: AbortJob after 1m"


def test_pod_pending_is_cancelled_when_the_pod_runs():
    world = World(job(policies=[policy("PodPending", "AbortJob", timeout="1m")]))
    world.settle()
    world.all("Running")
    world.settle()
    assert world.wake_at is None
    world.now += 100
    assert world.settle().phase is Phase.RUNNING


def test_any_event_without_a_timeout_does_not_answer_pending_pods():
    world = World(job(policies=[policy("*", "TerminateJob")]))
    assert world.settle().phase is Phase.PENDING
    world.all("Unknown")
    assert world.settle().phase is Phase.TERMINATED
    assert world.status.state.reason == "Unknown"


def test_each_pending_pod_has_its_own_time():
    world = World(job(task("worker", 2, minAvailable=1), minAvailable=1, maxRetry=9,
                      policies=[policy("PodPending", "RestartPod", timeout="60s")]))  # fmt: skip
    world.settle()
    world.set("worker", 1, "Running")
    world.settle()
    world.now += 30
    world.vanish("worker", 1)
    world.settle()
    world.now += 30
    world.settle()
    assert world.attempts() == {"worker-0": 1, "worker-1": 1}
    assert world.status.history[-1].indexes == "0"
    assert world.wake_at == START + 90


@pytest.mark.parametrize("event", ["PodFailed", "PodEvicted", "Unknown"])
def test_a_timeout_delays_the_action_from_the_moment_the_pod_shows(event):
    world = world_with(policy(event, timeout="10s"))
    world.now += 2
    phase = "Unknown" if event == "Unknown" else "Failed"
    world.set("worker", 0, phase, evicted=event == "PodEvicted")
    world.now += 5
    assert world.settle().phase is Phase.RUNNING
    assert world.wake_at == START + 12
    world.now += 5
    assert world.settle().phase is Phase.TERMINATED


def test_a_pod_that_answers_again_cancels_the_timeout():
    world = world_with(policy("Unknown", timeout="10s"))
    world.set("worker", 0, "Unknown")
    world.settle()
    world.set("worker", 0, "Running")
    world.now += 20
    assert world.settle().phase is Phase.RUNNING
    assert world.wake_at is None


def test_row_14_a_timeout_goes_on_across_a_restart_of_the_caller():
    worker = task("worker", 2, policies=[policy("TaskFailed", timeout="1m")])
    world = World(job(worker)).running()
    world.set("worker", 0, "Running", restarts=3)
    world.settle()
    assert world.status.holding == {"TaskFailed/worker": START}
    world.now += 59
    world.observed.put(world.at("worker", 0))
    assert Status.from_kube(world.status.to_kube()) == world.status
    assert world.settle().phase is Phase.RUNNING
    assert world.wake_at == START + 60
    world.now += 1
    assert world.settle().phase is Phase.TERMINATED


def test_a_held_event_that_ends_is_forgotten():
    world = world_with(policy("JobUpdated", timeout="1m"))
    world.scale(other=2)
    world.settle()
    assert world.status.holding == {"JobUpdated/": START}
    world.scale(other=1)
    world.settle()
    assert (world.status.holding, world.wake_at) == ({}, None)
    world.now += 100
    assert world.settle().phase is Phase.RUNNING


def test_job_updated_fires_once_per_change_of_replicas_or_min_available():
    world = world_with(policy("JobUpdated", "RestartJob"), maxRetry=9)
    world.scale(other=2)
    assert world.tick().status.phase is Phase.RESTARTING
    world.running()
    assert world.status.retry_count == 1
    world.change(minAvailable=2)
    world.tick()
    assert world.status.retry_count == 2
    assert world.status.state.reason == "JobUpdated"


def test_what_made_the_job_abort_does_not_abort_it_again_after_a_resume():
    world = world_with(policy("TaskCompleted", "AbortJob"))
    world.set("other", 0, "Succeeded")
    assert world.settle().phase is Phase.ABORTED
    world.command("ResumeJob")
    world.settle()
    world.running()
    assert world.status.handled == ("TaskCompleted/other",)
    world.all("Succeeded")
    assert world.settle().phase is Phase.ABORTED, "the other task's completion is a new event"


def test_a_failed_pod_runs_again_after_a_resume():
    world = world_with(policy("PodFailed", "AbortJob"))
    world.set("worker", 1, "Failed", 1)
    assert world.settle().phase is Phase.ABORTED
    world.command("ResumeJob")
    world.settle()
    world.running()
    assert world.attempts() == {"worker-0": 1, "worker-1": 1, "worker-2": 1, "other-0": 1}
    assert world.status.failed == 0


def test_events_of_an_earlier_attempt_do_not_count():
    world = world_with(policy("PodFailed", "RestartJob"), maxRetry=9)
    world.set("worker", 0, "Failed", 1)
    world.tick()
    world.set("worker", 1, "Failed", 1)
    world.tick()
    world.reap()
    world.tick()
    assert (world.status.retry_count, world.status.version) == (1, 1)


def test_an_action_on_the_whole_job_is_recorded_as_such_and_one_on_a_target_with_it():
    world = world_with(policy("PodFailed", "RestartJob"), maxRetry=9)
    world.set("worker", 0, "Failed", 1)
    world.settle()
    assert (world.status.history[-1].task, world.status.history[-1].indexes) == ("", "")
    world = world_with(policy("PodFailed", "RestartPod"), maxRetry=9)
    world.set("worker", 1, "Failed", 1)
    world.settle()
    assert (world.status.history[-1].task, world.status.history[-1].indexes) == ("worker", "1")


def test_an_event_that_a_resume_set_aside_fires_again_once_its_task_was_restarted():
    policies = [policy("TaskCompleted", "AbortJob"), policy("PodFailed", "RestartTask")]
    tasks = task("worker", 2, minAvailable=1, policies=policies), task("other", 1)
    world = World(job(*tasks, maxRetry=9)).running()
    world.all("Succeeded", "worker")
    world.settle()
    world.command("ResumeJob")
    world.settle()
    assert world.status.handled == ("TaskCompleted/worker",)
    world.scale(worker=3)
    world.settle()
    world.set("worker", 2, "Failed", 1)
    world.settle()
    assert world.status.handled == ()
    world.running()
    world.all("Succeeded", "worker")
    assert world.settle().phase is Phase.ABORTED


def test_resume_as_the_answer_to_an_update_takes_it_as_dealt_with():
    world = world_with(policy("JobUpdated", "ResumeJob"))
    before = world.status.shape
    world.scale(other=2)
    assert world.settle().shape != before
    assert world.phase in ("Running", "Pending")
    assert world.status.retry_count == 0


def test_a_policy_whose_action_nobody_knows_does_nothing():
    world = world_with(policy("PodFailed", "EnqueueJob"))
    world.set("worker", 0, "Failed", 1)
    assert world.settle().phase is Phase.RUNNING
    assert world.status.retry_count == 0


def test_only_the_pod_that_decided_the_end_is_blamed():
    world = world_with(policy("PodFailed", "RestartJob"), maxRetry=9)
    world.set("worker", 0, "Failed", 1)
    world.settle()
    assert world.status.culprit.index == 0
    world.running()
    world.command("TerminateJob")
    assert world.settle().culprit is None
    assert world.status.history[0].culprit.index == 0


def test_last_words_are_kept_short_enough_for_a_status():
    world = world_with(policy("PodFailed"))
    world.set("worker", 0, "Failed", failure=Failure("main", 1, message="x" * 5000))
    world.settle()
    assert len(world.status.culprit.failure.message) == 1001
    assert len(world.status.state.message) < 1200


def test_restarts_that_made_the_job_abort_do_not_abort_it_again_after_a_resume():
    tasks = task("worker", 1, policies=[policy("TaskFailed", "AbortJob")]), task("other", 1)
    world = World(job(*tasks)).running()
    world.set("worker", 0, "Succeeded", restarts=3)
    assert world.settle().phase is Phase.ABORTED
    world.command("ResumeJob")
    world.settle()
    world.running()
    assert world.status.handled == ("TaskCompleted/worker", "TaskFailed/worker")


def test_an_update_that_no_policy_answers_is_taken_over():
    world = world_with()
    world.scale(other=2)
    assert world.settle().shape == "5,worker=3/3,other=2/2"


def test_restart_partition_of_a_task_without_partitions_restarts_the_pod():
    world = world_with(policy("PodFailed", "RestartPartition"))
    world.set("worker", 1, "Failed", 1)
    world.settle()
    assert world.attempts() == {"worker-0": 0, "worker-1": 1, "worker-2": 0, "other-0": 0}


def test_a_pod_that_is_to_go_does_not_answer_its_policy_again_before_it_is_told():
    policies = [policy("PodPending", "RestartPod", timeout="1m")]
    world = World(job(task("worker", 2, minAvailable=1), minAvailable=1, maxRetry=9, policies=policies))
    world.settle()
    world.set("worker", 0, "Running")
    world.settle()
    world.now += 60
    for _ in range(3):  # cut off before the first step, each time
        world.persist(world.decide())
    assert world.status.retry_count == 1
    assert world.status.phase is Phase.RUNNING


def test_a_gang_that_the_scheduler_gave_up_on_is_an_unknown_event_of_the_job():
    world = world_with(policy("Unknown", "RestartJob"))
    world.vanish("worker", 0)
    world.settle()
    world.observed.gang_broken = True
    assert world.tick().status.phase is Phase.RESTARTING
    assert world.status.state.reason == "Unknown"
    assert "the scheduler finds no place for the rest" in world.status.state.message


def test_after_a_restart_the_scheduler_has_to_give_up_anew():
    world = world_with(policy("Unknown", "RestartJob"))
    world.observed.gang_broken = True
    world.settle()
    assert (world.status.phase, world.status.retry_count) == (Phase.PENDING, 1)
    world.observed.gang_broken = False
    world.running()
    assert world.status.retry_count == 1


def test_a_gang_that_comes_together_again_cancels_the_timeout():
    world = world_with(policy("Unknown", timeout="1m"))
    world.observed.gang_broken = True
    world.settle()
    assert (world.status.holding, world.wake_at) == ({"Unknown/": START}, START + 60)
    world.now += 30
    assert world.settle().phase is Phase.RUNNING
    assert world.wake_at == START + 60
    world.observed.gang_broken = False
    assert world.settle().holding == {}


@pytest.mark.parametrize("source", ["policy", "command"])
def test_an_action_is_told_of_by_volcanos_word_and_its_name(source):
    world = world_with(policy("PodFailed", "TerminateJob"))
    if source == "policy":
        world.set("worker", 0, "Failed", 1)
    else:
        world.command("TerminateJob")
    world.tick()
    told = [event.message for event in world.events if event.reason == "ExecuteAction"]
    assert len(told) == 1
    assert told[0].startswith("Terminating: ") and "TerminateJob" in told[0]
