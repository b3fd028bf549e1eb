"""The Jobs of the storm: what each is, what its user does meanwhile, and how it ends when nothing goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec

from tests.cluster.controller.jobs import job, task, trio
from tests.testbed.parts.fake_nodes import ENDS_FROM, FAILS_BEFORE

Object = dict[str, Any]
#: One life of one pod: Job uid, pod name, attempt.
Life = tuple[str, str, str]
#: Whether the Job is in the state that is waited for (None: no Job).
Until = Callable[[Object | None], bool]

GONE = "(gone)"
OVER = ("Completed", "Failed", "Terminated")


class User(Protocol):
    @property
    def in_a_storm(self) -> bool: ...

    def owns(self, job: str) -> bool: ...

    def create(self, plural: str, body: Object) -> None: ...

    def command(self, job: str, action: str) -> None: ...

    def change(self, job: str, patch: object) -> None: ...

    def delete(self, plural: str, name: str) -> None: ...


class Shape(msgspec.Struct, frozen=True):
    make: Callable[[str], Object]
    end: str
    #: What the user does once the Job is made; each step waits for a sight of the Job.
    acts: Callable[[User, str], Iterator[Until]] | None = None
    #: The most restarts that may be counted: one too many shows that one was counted twice.
    retries: int = 0
    #: What the user does before the Job is made.
    before: Callable[[User, str], None] | None = None


def phase_of(job: Object | None) -> str:
    return GONE if job is None else str((job.get("status") or {}).get("state", {}).get("phase", ""))


def in_phase(*phases: str) -> Until:
    return lambda job: phase_of(job) in (*phases, *OVER)


# What users do


def _suspend(user: User, name: str) -> Iterator[Until]:
    yield in_phase("Running")
    user.command(name, "AbortJob")


def _suspend_and_resume(user: User, name: str) -> Iterator[Until]:
    yield from _suspend(user, name)
    yield in_phase("Aborted")
    user.command(name, "ResumeJob")


def _unsuspend(user: User, name: str) -> Iterator[Until]:
    yield in_phase("Aborted")
    user.change(name, {"spec": {"suspend": False}})


def _stop(user: User, name: str) -> Iterator[Until]:
    yield in_phase("Running")
    user.command(name, "TerminateJob")


def _stop_once_there_is_a_pod(user: User, name: str) -> Iterator[Until]:
    yield lambda job: bool(job and (job.get("status") or {}).get("pending")) or phase_of(job) in OVER
    user.command(name, "TerminateJob")


def _grow_then_complete(user: User, name: str) -> Iterator[Until]:
    yield in_phase("Running")
    size = [
        {"op": "replace", "path": "/spec/tasks/0/replicas", "value": 3},
        {"op": "add", "path": "/spec/tasks/0/minAvailable", "value": 3},
        {"op": "add", "path": "/spec/minAvailable", "value": 3},
    ]
    user.change(name, size)
    yield lambda job: bool(job and (job.get("status") or {}).get("running") == 3) or phase_of(job) in OVER
    user.command(name, "CompleteJob")


def _delete(user: User, name: str) -> Iterator[Until]:
    yield in_phase("Running")
    user.delete("jobs", name)


def _recreate(user: User, name: str) -> Iterator[Until]:
    yield from _delete(user, name)
    user.create("jobs", job(name, task("a", 2, after="1s")))


def _outlast(user: User, name: str) -> Iterator[Until]:
    """Through the whole storm; then it must have all that it had, whatever was deleted meanwhile."""
    yield in_phase("Running")
    yield lambda job: not user.in_a_storm
    yield (
        lambda job: (
            bool(job and job["status"].get("running") == 3 and user.owns(name)) or phase_of(job) in OVER
        )
    )
    user.command(name, "TerminateJob")


def _take_the_name(user: User, name: str) -> None:
    user.create("services", {"metadata": {"name": name}, "spec": {"clusterIP": "None"}})


def _give_the_name_free(user: User, name: str) -> Iterator[Until]:
    def refused(job: Object | None) -> bool:
        state = ((job or {}).get("status") or {}).get("state", {})
        return "belong" in state.get("message", "") or state.get("phase") in OVER

    yield refused
    user.delete("services", name)


# What they run


def _by_attempt(part: Object, key: str, attempt: int) -> Object:
    part["template"]["metadata"]["annotations"][key] = str(attempt)
    return part


def _fails_first(name: str, replicas: int, code: int = 1, **fields: Any) -> Object:
    return _by_attempt(task(name, replicas, after="500ms", code=code, **fields), FAILS_BEFORE, 1)


def _on(action: str, event: str = "PodFailed") -> list[Object]:
    return [{"event": event, "action": action}]


def _suspended_twice(name: str) -> Object:
    parts = [_by_attempt(task(part, size), ENDS_FROM, 1) for part, size in (("master", 1), ("worker", 2))]
    return job(name, *parts, plugins={"pytorch": []})


def _with_volume(name: str) -> Object:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    volume = {"mountPath": "/data", "volumeClaim": {**claim, "storageClassName": "nobody-serves-this"}}
    return job(name, task("a", 1), volumes=[volume])


SHAPES: dict[str, Shape] = {
    "trio": Shape(lambda name: trio(name, after="3s"), "Completed"),
    "plain": Shape(lambda name: job(name, task("a", 3, after="2s")), "Completed"),
    "patient": Shape(
        lambda name: job(
            name,
            task("a", 2, after="4s"),
            policies=[{"event": "PodPending", "action": "AbortJob", "timeout": "48h"}],
        ),
        "Completed",
    ),
    "fails": Shape(lambda name: job(name, task("a", 2, after="500ms", code=1)), "Failed"),
    "rank-fails": Shape(
        lambda name: job(
            name,
            task("master", 1, after=None),
            task("worker", 2, after="1s", code=3),
            plugins={"pytorch": []},
        ),
        "Failed",
    ),
    "restarts-in-vain": Shape(
        lambda name: job(name, task("a", 2, after="500ms", code=1), policies=_on("RestartJob"), maxRetry=3),
        "Failed",
        retries=3,
    ),
    "restarts-once": Shape(
        lambda name: job(
            name, _fails_first("a", 2, code=7), policies=[{"exitCode": 7, "action": "RestartJob"}]
        ),
        "Completed",
        retries=1,
    ),
    "restarts-a-pod": Shape(
        lambda name: job(
            name, task("good", 2, after="2s"), _fails_first("bad", 1, policies=_on("RestartPod"))
        ),
        "Completed",
        retries=1,
    ),
    "restarts-a-task": Shape(
        lambda name: job(
            name, task("good", 1, after="2s"), _fails_first("bad", 2, policies=_on("RestartTask"))
        ),
        "Completed",
        retries=1,
    ),
    "ends-with-its-master": Shape(
        lambda name: job(
            name,
            task("master", 1, after="2s", policies=_on("CompleteJob", "TaskCompleted")),
            task("worker", 2, after=None),
            plugins={"pytorch": []},
        ),
        "Completed",
    ),
    "depends": Shape(
        lambda name: job(name, task("first", 1, after="2s"), task("then", 2, dependsOn={"name": ["first"]})),
        "Completed",
    ),
    "depends-in-vain": Shape(
        lambda name: job(
            name, task("first", 1, after="500ms", code=1), task("then", 2, dependsOn={"name": ["first"]})
        ),
        "Failed",
    ),
    "one-success": Shape(
        lambda name: job(name, task("quick", 1), task("slow", 2, after=None), minAvailable=3, minSuccess=1),
        "Completed",
    ),
    "deadline": Shape(lambda name: job(name, task("a", 1, after=None), activeDeadlineSeconds=6), "Failed"),
    "invalid": Shape(lambda name: job(name, task("worker", 1), plugins={"pytorch": []}), "Failed"),
    "suspended-and-resumed": Shape(_suspended_twice, "Completed", _suspend_and_resume),
    "stays-suspended": Shape(lambda name: trio(name, after=None), "Aborted", _suspend),
    "begins-suspended": Shape(lambda name: job(name, task("a", 2), suspend=True), "Completed", _unsuspend),
    "stopped": Shape(lambda name: trio(name, after=None), "Terminated", _stop),
    "lasts": Shape(lambda name: trio(name, after=None), "Terminated", _outlast),
    "volume": Shape(_with_volume, "Terminated", _stop_once_there_is_a_pod),
    "grows": Shape(lambda name: job(name, task("a", 1, after=None)), "Completed", _grow_then_complete),
    "short-lived": Shape(lambda name: job(name, task("a", 2), ttlSecondsAfterFinished=1), GONE),
    "deleted": Shape(lambda name: trio(name, after=None), GONE, _delete),
    "recreated": Shape(lambda name: trio(name, after=None), "Completed", _recreate),
    "name-taken": Shape(trio, "Completed", _give_the_name_free, before=_take_the_name),
}
