"""Every Job ends: where no pod is left to wait for and no time will change anything, the Job is over or suspended.

The Jobs have tasks that depend on each other and few policies, so that random lives reach the states in between.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lifecycle.simulation import Simulation, job, task
from vcjob.lifecycle.pod import Failure, PodFact
from vcjob.lifecycle.status import FINAL, Phase, Status
from vcjob.spec.job import Job
from vcjob.wellknown.annotations import LIFECYCLE

MOVES = ["all run", "all run", "succeed", "fail", "delete", "suspend and resume", "lose what we recorded"]
moves = st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 9)), min_size=3, max_size=8)
#: How the pods of each task end once nothing else happens: before or after they run.
endings = st.lists(st.sampled_from(["fail", "run", "run and fail"]), min_size=3, max_size=3)


@st.composite
def jobs_with_dependencies(draw: st.DrawFn) -> Job:
    names = ["a", "b", "c"][: draw(st.sampled_from([2, 2, 3]))]
    tasks = []
    for place, name in enumerate(names):
        replicas = draw(st.sampled_from([1, 2, 2]))
        fields: dict[str, Any] = {"minAvailable": draw(st.integers(1, replicas))}
        if place:
            needed = draw(st.sets(st.sampled_from(names[:place]), min_size=1))
            fields["dependsOn"] = {"name": sorted(needed), "iteration": draw(st.sampled_from(["any", "all"]))}
        tasks.append(task(name, replicas, **fields))
    actions = ["RestartJob", "RestartTask", "RestartPod"]
    policies = [{"event": "PodFailed", "action": draw(st.sampled_from(actions))}] * draw(
        st.sampled_from([0, 0, 0, 1])
    )
    return job(*tasks, policies=policies, maxRetry=draw(st.integers(1, 3)))


def living(world: Simulation) -> list[PodFact]:
    return [pod for pod in world.observed.pods.values() if not pod.done and not pod.terminating]


def move(world: Simulation, what: str, place: int) -> None:
    pods = living(world)
    if what == "suspend and resume":
        for action in ("AbortJob", "ResumeJob"):
            world.command(action)
            world.settle()
    elif what == "lose what we recorded":
        document = json.loads(world.stored)
        document["controlledResources"][LIFECYCLE] = "{"
        world.stored = json.dumps(Status.readable(document).to_kube())
        world.born = set(world.observed.pods)  # which attempts there were is lost too
    elif what == "all run":
        world.all("Running")
    elif pods:
        pod = pods[place % len(pods)]
        if what == "delete":
            world.observed.put(msgspec.structs.replace(pod, terminating=True, since=world.now))
        else:
            end(world, pod, what)


def end(world: Simulation, pod: PodFact, how: str) -> None:
    if how == "fail" or (how == "run and fail" and pod.phase == "Running"):
        world.set_pod(pod.task, pod.index, "Failed", failure=Failure("main", 1))
    elif how in ("run", "run and fail") and pod.phase == "Pending":
        world.set_pod(pod.task, pod.index, "Running")
    else:
        world.set_pod(pod.task, pod.index, "Succeeded")


@given(jobs_with_dependencies(), moves, endings)
@settings(deadline=None)
def test_a_job_is_over_when_nothing_is_left_to_wait_for(
    the_job: Job, script: list[tuple[str, int]], how: list[str]
) -> None:
    world = Simulation(the_job)
    world.settle()
    for what, place in script:
        move(world, what, place)
        world.settle()
    while pods := living(world):
        for pod in pods:
            end(world, pod, how["abc".index(pod.task)])
        world.settle()
    assert world.wake_at is None
    assert world.status.phase in FINAL | {Phase.ABORTED}, world.status.state
