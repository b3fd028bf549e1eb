"""Policies: which one applies, what it does, and which pod is the culprit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lifecycle.simulation import START, policy, world_with
from vcjob.lifecycle.indexset import IndexSet
from vcjob.lifecycle.pod import Failure
from vcjob.lifecycle.policies import PolicyEvent, PolicyTable
from vcjob.lifecycle.status import Phase
from vcjob.lifecycle.step import KillPods
from vcjob.spec.job import Policy


def test_a_policy_of_the_task_comes_before_one_of_the_job() -> None:
    world = world_with(policy("PodFailed", "CompleteJob"), task_policies=[policy("PodFailed", "AbortJob")])
    world.set_pod("worker", 0, "Failed", 1)
    assert world.settle().phase is Phase.ABORTED
    assert "policy of task worker: AbortJob" in world.status.state.message
    assert world.status.suspended_by == "policy"


def test_a_policy_of_the_job_applies_where_the_task_has_none_that_matches() -> None:
    world = world_with(policy("PodFailed", "CompleteJob"), task_policies=[policy("PodEvicted", "AbortJob")])
    world.set_pod("worker", 0, "Failed", 1)
    assert world.settle().phase is Phase.COMPLETED
    assert "policy of the job: CompleteJob" in world.status.state.message


def test_a_policy_of_another_task_does_not_apply() -> None:
    world = world_with(task_policies=[policy("PodFailed")])
    world.set_pod("other", 0, "Failed", 1)
    assert world.settle().phase is Phase.RUNNING


def test_the_first_policy_that_matches_wins() -> None:
    world = world_with(
        policy(exitCode=3, action="CompleteJob"), policy("PodFailed", "AbortJob"), policy("*", "TerminateJob")
    )
    world.set_pod("worker", 0, "Failed", 4)
    assert world.settle().phase is Phase.ABORTED
    again = world_with(
        policy(exitCode=3, action="CompleteJob"), policy("PodFailed", "AbortJob"), policy("*", "TerminateJob")
    )
    again.set_pod("worker", 0, "Failed", 3)
    assert again.settle().phase is Phase.COMPLETED


def test_a_list_of_events_matches_each_of_them() -> None:
    for event in ("PodFailed", "PodEvicted"):
        world = world_with({"events": ["PodFailed", "PodEvicted"], "action": "TerminateJob"})
        world.set_pod("worker", 0, "Failed", 1, evicted=event == "PodEvicted")
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
def test_an_exit_code_leads_to_each_action(action: str, end: str) -> None:
    world = world_with(policy(exitCode=42, action=action))
    world.set_pod("worker", 2, "Failed", 41)
    assert world.settle().phase is Phase.RUNNING
    world.set_pod("worker", 1, "Failed", 42)
    assert world.settle().phase == end
    assert world.status.retry_count == (1 if action.startswith("Restart") else 0)


def test_improvement_15_the_exit_code_is_that_of_the_container_that_failed_first_init_included() -> None:
    world = world_with(policy(exitCode=9, action="CompleteJob"))
    world.set_pod("worker", 0, "Failed", failure=Failure("fetch", 9, init=True))
    assert world.settle().phase is Phase.COMPLETED
    assert "init container fetch exited with code 9" in world.status.state.message


def test_a_failure_without_a_match_does_not_hide_a_later_one_that_has() -> None:
    world = world_with(policy(exitCode=137, action="RestartJob"))
    world.set_pod("worker", 0, "Failed", 1)
    world.now += 5
    world.set_pod("worker", 1, "Failed", 137)
    assert world.tick().status.phase is Phase.RESTARTING
    assert world.culprit.index == 1


def test_the_earliest_of_several_failures_is_the_culprit() -> None:
    world = world_with(policy("PodFailed"))
    world.set_pod("worker", 2, "Failed", 2, since=START + 10)
    world.set_pod("worker", 0, "Failed", 3, since=START + 12)
    world.set_pod("other", 0, "Failed", 4, since=START + 11)
    world.tick()
    assert (world.culprit.task, world.culprit.index) == ("worker", 2)
    assert world.failure.exit_code == 2


def test_pods_that_failed_together_are_restarted_together_for_one_retry() -> None:
    world = world_with(policy("PodFailed", "RestartPod"), maxRetry=3)
    world.set_pod("worker", 0, "Failed", 1)
    world.set_pod("worker", 2, "Failed", 1)
    decision = world.tick()
    assert decision.status.retry_count == 1
    assert [s for s in decision.steps if isinstance(s, KillPods)] == [
        KillPods("worker", IndexSet.of([0, 2]), 0, "Replaced")
    ]


def test_the_history_records_what_an_action_restarted() -> None:
    world = world_with(policy("PodFailed", "RestartJob"), maxRetry=9)
    world.set_pod("worker", 0, "Failed", 1)
    world.settle()
    assert (world.status.history[-1].task, world.status.history[-1].indexes) == ("", "")
    world = world_with(policy("PodFailed", "RestartPod"), maxRetry=9)
    world.set_pod("worker", 1, "Failed", 1)
    world.settle()
    assert (world.status.history[-1].task, world.status.history[-1].indexes) == ("worker", "1")


def test_a_policy_with_an_unknown_action_does_nothing() -> None:
    world = world_with(policy("PodFailed", "EnqueueJob"))
    world.set_pod("worker", 0, "Failed", 1)
    assert world.settle().phase is Phase.RUNNING
    assert world.status.retry_count == 0


def test_only_the_pod_that_caused_the_end_is_the_culprit() -> None:
    world = world_with(policy("PodFailed", "RestartJob"), maxRetry=9)
    world.set_pod("worker", 0, "Failed", 1)
    world.settle()
    assert world.culprit.index == 0
    world.running()
    world.command("TerminateJob")
    assert world.settle().culprit is None
    culprit = world.status.history[0].culprit
    assert culprit is not None and culprit.index == 0


def test_the_message_of_a_failure_is_cut_to_what_a_status_can_keep() -> None:
    world = world_with(policy("PodFailed"))
    world.set_pod("worker", 0, "Failed", failure=Failure("main", 1, message="x" * 5000))
    world.settle()
    assert 990 < len(world.failure.message.encode()) <= 1000
    assert len(world.status.state.message) < 1200


def test_restart_partition_of_a_task_without_partitions_restarts_the_pod() -> None:
    world = world_with(policy("PodFailed", "RestartPartition"))
    world.set_pod("worker", 1, "Failed", 1)
    world.settle()
    assert world.attempts() == {"worker-0": 0, "worker-1": 1, "worker-2": 0, "other-0": 0}


@pytest.mark.parametrize("source", ["policy", "command"])
def test_the_event_of_an_action_has_volcanos_reason_and_names_the_action(source: str) -> None:
    world = world_with(policy("PodFailed", "TerminateJob"))
    if source == "policy":
        world.set_pod("worker", 0, "Failed", 1)
    else:
        world.command("TerminateJob")
    world.tick()
    messages = [event.message for event in world.events if event.reason == "ExecuteAction"]
    assert len(messages) == 1
    assert messages[0].startswith("Terminating: ") and "TerminateJob" in messages[0]


_events = st.sampled_from(["PodFailed", "PodPending", "PodEvicted", "*"])
_policies = st.builds(
    Policy,
    action=st.just("AbortJob"),
    event=st.none() | _events,
    events=st.lists(_events, max_size=2).map(tuple),
    exit_code=st.none() | st.integers(1, 3),
    timeout=st.sampled_from([None, "", "0s", "5s", "5 parsecs"]),
)


def first_match(policies: Sequence[Policy], event: PolicyEvent) -> Policy | None:
    """What docs/semantics.md says, one policy after the other."""
    for one in policies:
        named = {event.name, "*"} & set(one.all_events)
        code = event.name == "PodFailed" and one.exit_code is not None and one.exit_code == event.exit_code
        if (named or code) and (event.name != "PodPending" or one.timeout):
            return one
    return None


@given(
    st.lists(_policies, max_size=5),
    st.sampled_from(["PodFailed", "PodPending", "JobUpdated"]),
    st.none() | st.integers(1, 4),
)
def test_a_table_of_policies_finds_the_first_that_matches(
    policies: list[Policy], name: str, exit_code: int | None
) -> None:
    event = PolicyEvent(100.0, name, exit_code=exit_code)
    match, expected = PolicyTable(policies).match(event, "the job"), first_match(policies, event)
    assert (match and match.policy) is expected
    if match is not None:
        due = {"0s": 100.0, "5s": 105.0}.get(match.policy.timeout or "", 0.0)
        assert match.due == due if match.policy.timeout != "5 parsecs" else match.due > 9e9
