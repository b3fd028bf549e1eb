"""The pod that is to blame."""

from __future__ import annotations

import msgspec

from vcjob.lifecycle.decision_context import DecisionContext
from vcjob.lifecycle.policies import POD_EVICTED, POD_FAILED
from vcjob.lifecycle.policy_events import happenings
from vcjob.lifecycle.status import Culprit

MESSAGE_KEPT = 1000


def culprit_of(turn: DecisionContext, event: str, task: str, index: int) -> Culprit:
    """How the pod stands now; of its last words, as many as a status can keep."""
    attempt = turn.tallies[task].memory.attempts.of(index)
    pod = turn.observed.pod(task, index, attempt)
    failure = pod.failure if pod else None
    if failure is not None and len(failure.message) > MESSAGE_KEPT:
        failure = msgspec.structs.replace(failure, message=failure.message[:MESSAGE_KEPT] + "…")
    return Culprit(
        task=task,
        index=index,
        attempt=attempt,
        rank=turn.rules.tasks[task].rank(index),
        event=event,
        failure=failure,
    )


def first_failure(turn: DecisionContext) -> Culprit | None:
    """The pod that failed first of those that are there."""
    for happening in happenings(turn):
        if happening.event in (POD_FAILED, POD_EVICTED) and happening.index is not None:
            return culprit_of(turn, happening.event, happening.task, happening.index)
    return None
