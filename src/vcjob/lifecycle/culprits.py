"""The pod that is to blame."""

from __future__ import annotations

import msgspec

from vcjob.lifecycle.decision_context import DecisionContext
from vcjob.lifecycle.policies import POD_EVICTED, POD_FAILED
from vcjob.lifecycle.policy_events import policy_events
from vcjob.lifecycle.status import Culprit

MESSAGE_KEPT = 1000


def culprit_of(context: DecisionContext, event: str, task: str, index: int) -> Culprit:
    """How the pod stands now; of its last words, as many as a status can keep."""
    attempt = context.tasks[task].memory.attempts.of(index)
    pod = context.observed.pod(task, index, attempt)
    failure = pod.failure if pod else None
    if failure is not None and len(failure.message) > MESSAGE_KEPT:
        failure = msgspec.structs.replace(failure, message=failure.message[:MESSAGE_KEPT] + "…")
    return Culprit(
        task=task,
        index=index,
        attempt=attempt,
        rank=context.rules.tasks[task].rank(index),
        event=event,
        failure=failure,
    )


def first_failure(context: DecisionContext) -> Culprit | None:
    """The pod that failed first of those that are there."""
    for event in policy_events(context):
        if event.name in (POD_FAILED, POD_EVICTED) and event.index is not None:
            return culprit_of(context, event.name, event.task, event.index)
    return None
