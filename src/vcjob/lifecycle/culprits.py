"""The pod that caused an end or a restart: the culprit that the status names.

Called by the modules that end or restart a Job. Reads pods only; a culprit must fit into the status, so its
message is bounded."""

from __future__ import annotations

import msgspec

from vcjob.lifecycle.decision_context import DecisionContext
from vcjob.lifecycle.descriptions import shorten
from vcjob.lifecycle.policies import POD_EVICTED, POD_FAILED
from vcjob.lifecycle.policy_events import policy_events
from vcjob.lifecycle.status import Culprit

#: Bytes of a failure's message and reason that a status keeps.
MESSAGE_BYTES, REASON_BYTES = 1000, 100


def culprit_of(context: DecisionContext, event: str, task: str, index: int) -> Culprit:
    """The pod and how it failed, with the failure's message cut to what a status can keep."""
    attempt = context.tasks[task].memory.attempts.of(index)
    pod = context.observed.pod(task, index, attempt)
    failure = pod.failure if pod else None
    if failure is not None:
        failure = msgspec.structs.replace(
            failure,
            message=shorten(failure.message, MESSAGE_BYTES),
            reason=shorten(failure.reason, REASON_BYTES),
        )
    return Culprit(
        task=task,
        index=index,
        attempt=attempt,
        rank=context.rules.tasks[task].rank(index),
        event=event,
        failure=failure,
    )


def first_failure(context: DecisionContext) -> Culprit | None:
    """The pod that failed first, of those that still exist."""
    for event in policy_events(context):
        if event.name in (POD_FAILED, POD_EVICTED) and event.index is not None:
            return culprit_of(context, event.name, event.task, event.index)
    return None
