"""Random lives of Jobs keep the rules of `semantics_machine`.

`test_the_machine_finds_a_known_bug` takes fixes out again, one at a time, and expects the machine to notice.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.lifecycle import semantics_machine
from tests.lifecycle.semantics_machine import Semantics
from vcjob.lifecycle import (
    actions,
    dependencies,
    due_actions,
    observed,
    phases,
    policy_actions,
    policy_events,
)
from vcjob.lifecycle.decision_context import DecisionContext
from vcjob.lifecycle.indexset import EMPTY

LIVES = settings(
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestSemantics = Semantics.TestCase
TestSemantics.settings = LIVES


def without_kept_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finished pod that is deleted counts as evicted."""
    evicted = policy_events._evicted

    def of_all_pods(context: Any, task: Any, state: Any) -> Any:
        forgetful = copy.copy(state)
        forgetful.succeeded = EMPTY
        return evicted(context, task, forgetful)

    monkeypatch.setattr(policy_events, "_evicted", of_all_pods)
    monkeypatch.setattr(observed, "_merged", lambda _old, new: new)


def without_waiting_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Job ends although a policy waits for its timeout."""
    never = property(lambda _self: False, lambda _self, _value: None)
    monkeypatch.setattr(DecisionContext, "policy_is_waiting", never, raising=False)


def with_events_of_replaced_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """A TaskFailed that held at a resume never fires again, although the resume replaced the pods."""
    handled: set[str] = set()
    resume, of_task = actions._resume, policy_events._of_task

    def remembering_resume(context: DecisionContext, cause: Any) -> bool:
        for name, state in context.tasks.items():
            if state.restarts >= context.rules.tasks[name].max_restarts:
                handled.add(name)
        return resume(context, cause)

    def of_task_unless_handled(context: Any, task: Any, state: Any, done: Any) -> Any:
        for event in of_task(context, task, state, done):
            if event.name != "TaskFailed" or event.task not in handled:
                yield event

    monkeypatch.setattr(actions, "_resume", remembering_resume)
    monkeypatch.setattr(policy_events, "_of_task", of_task_unless_handled)
    monkeypatch.setattr(Semantics, "on_begin", staticmethod(handled.clear))


def without_ready_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that was ready is not, when it restarts."""
    startable = dependencies.startable_tasks
    monkeypatch.setattr(semantics_machine, "TASKS", [2])
    monkeypatch.setattr(semantics_machine, "REPLICAS", [1])
    monkeypatch.setattr(semantics_machine, "DEPENDS", [True])
    monkeypatch.setattr(
        phases, "startable_tasks", lambda rules, states, _ready: startable(rules, states, frozenset())
    )


def without_united_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each exit code, each task and each attempt costs a retry."""
    parts_due = due_actions.parts_due
    monkeypatch.setattr(policy_actions, "parts_due", lambda context, events: parts_due(context, events[:1]))


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("take_out", "event", "message", "first"),
    [
        (without_kept_ends, "PodEvicted", "had succeeded: PodEvicted", 2),
        (without_waiting_policies, "PodFailed", "was not acted on", 2),
        (without_waiting_policies, "TaskCompleted", "was not acted on", 1),
        (with_events_of_replaced_pods, "TaskFailed", "TaskFailed.*was not acted on", 2),
        (without_ready_tasks, "TaskCompleted", "was ready", 3),
        (without_united_restarts, "PodFailed", "needs another restart", 1),
    ],
)
def test_the_machine_finds_a_known_bug(
    take_out: Callable[[pytest.MonkeyPatch], None],
    event: str,
    message: str,
    first: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The search draws policies for one event, or few pods, and begins with a seed that finds the bug within seconds.
    With another seed it finds it too, but later. The machine itself draws from all."""
    take_out(monkeypatch)
    monkeypatch.setattr(semantics_machine, "EVENTS", [event])
    search = settings(LIVES, max_examples=5000, database=None, phases=[hypothesis.Phase.generate])
    seeded = hypothesis.seed(first)(type("Seeded", (Semantics,), {}))
    with pytest.raises(AssertionError, match=message):
        run_state_machine_as_test(seeded, settings=search)
