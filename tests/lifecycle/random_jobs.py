"""Jobs and policies drawn at random."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.lifecycle.simulation import job, task
from vcjob.admission.checks.policies import EVENTS
from vcjob.lifecycle.actions import ACTIONS

#: Mostly all goes well: a life that is cut short at once shows little.
SELDOM = st.sampled_from([False, False, False, False, True])

POLICY_ACTIONS = ["RestartJob", "RestartTask", "RestartPod", "RestartPartition", *sorted(ACTIONS)]


@st.composite
def policies(draw: st.DrawFn) -> list[dict[str, Any]]:
    chosen = []
    for _ in range(draw(st.integers(0, 2))):
        policy: dict[str, Any] = {"action": draw(st.sampled_from(POLICY_ACTIONS))}
        event = draw(st.sampled_from([*EVENTS, None]))
        if event is None:
            policy["exitCode"] = draw(st.sampled_from([1, 137]))
        else:
            policy["event"] = event
        if event == "PodPending" or draw(st.booleans()):
            policy["timeout"] = draw(st.sampled_from(["5s", "1m"]))
        chosen.append(policy)
    return chosen


@st.composite
def jobs(draw: st.DrawFn) -> Any:
    names = ["master", "worker", "extra"][: draw(st.integers(1, 3))]
    tasks = []
    for place, name in enumerate(names):
        replicas = draw(st.integers(1, 4))
        fields: dict[str, Any] = {"policies": draw(policies()), "maxRetry": draw(st.integers(0, 3))}
        fields["minAvailable"] = draw(st.integers(1, replicas))
        if place and draw(st.booleans()):
            fields["dependsOn"] = {"name": names[:place], "iteration": draw(st.sampled_from(["any", "all"]))}
        if draw(st.booleans()):
            fields["partitionPolicy"] = {"totalPartitions": 2, "partitionSize": 2}
        tasks.append(task(name, replicas, **fields))
    spec: dict[str, Any] = {"policies": draw(policies()), "maxRetry": draw(st.sampled_from([0, 2, 4, 8]))}
    spec["minAvailable"] = draw(st.integers(1, sum(entry["replicas"] for entry in tasks)))
    if draw(SELDOM):
        spec["plugins"] = {"pytorch": None}
    if draw(SELDOM):
        spec["minSuccess"] = draw(st.integers(1, 3))
    if draw(st.booleans()):
        spec["activeDeadlineSeconds"] = 500
    if draw(st.booleans()):
        spec["ttlSecondsAfterFinished"] = 50
    if draw(SELDOM):
        spec["suspend"] = True
    ignore = {"vcjob.io/on-rank-failure": "ignore"} if draw(st.booleans()) else {}
    return job(*tasks, annotations=ignore, **spec)
