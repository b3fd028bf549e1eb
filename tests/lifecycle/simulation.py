"""A backend in memory: it executes the steps of decisions, and tests decide what happens to its pods."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from vcjob.lifecycle.decide import decide
from vcjob.lifecycle.decision import Decision
from vcjob.lifecycle.observed import Command, Observed
from vcjob.lifecycle.pod import Failure, PodFact
from vcjob.lifecycle.status import Culprit, Phase, Status
from vcjob.lifecycle.step import (
    CreatePods,
    DeleteCommand,
    DeleteJob,
    EmitEvent,
    FailPods,
    KillPods,
    Step,
)
from vcjob.spec.job import Job

START = 1_700_000_000.0


def task(name: str, replicas: int, **fields: Any) -> dict[str, Any]:
    return {"name": name, "replicas": replicas, "template": {"spec": {"containers": []}}, **fields}


def job(*tasks: dict[str, Any], annotations: dict[str, str] | None = None, **spec: Any) -> Job:
    """A Job after admission; without tasks it has three workers."""
    tasks = tasks or (task("worker", 3),)
    metadata = {"name": "train", "namespace": "default", "uid": "u-1", "annotations": annotations or {}}
    return Job({"metadata": metadata, "spec": {"tasks": list(tasks), **spec}})


def torch_job(workers: int = 2, **spec: Any) -> Job:
    tasks = spec.pop("tasks", None) or (task("master", 1), task("worker", workers))
    return job(*tasks, plugins={"pytorch": None}, **spec)


def policy(event: str | None = None, action: str = "TerminateJob", **fields: Any) -> dict[str, Any]:
    return {"action": action, **({"event": event} if event else {}), **fields}


class Simulation:
    """Pods by (task, index, attempt); every pod that was ever created is recorded, so that none is created twice."""

    def __init__(self, the_job: Job | None = None) -> None:
        self.job = the_job or job()
        self.now = START
        self.stored = json.dumps(Status().to_kube())
        self.observed = Observed()
        self.born: set[tuple[str, int, int]] = set()
        self.succeeded: set[tuple[str, int, int]] = set()
        self.events: list[EmitEvent] = []
        self.deleted = False
        self.asked = 0
        self.wake_at: float | None = None

    # What the backend does.

    @property
    def status(self) -> Status:
        return Status.from_kube(json.loads(self.stored))

    @property
    def phase(self) -> str:
        return str(self.status.phase)

    @property
    def culprit(self) -> Culprit:
        culprit = self.status.culprit
        assert culprit is not None, "the status names no pod"
        return culprit

    @property
    def failure(self) -> Failure:
        failure = self.culprit.failure
        assert failure is not None, "the pod has no failure"
        return failure

    def decide(self) -> Decision:
        decision = decide(self.job, self.status, self.observed, self.now)
        self.wake_at = decision.wake_at
        return decision

    def store(self, decision: Decision) -> None:
        self.stored = json.dumps(decision.status.to_kube())

    def tick(self) -> Decision:
        """One decision, written down, and its steps done."""
        decision = self.decide()
        self.store(decision)
        for step in decision.steps:
            self.do(step)
        return decision

    def settle(self) -> Status:
        """Decide until nothing is left to do; terminating pods are removed at once."""
        for _ in range(50):
            before = (self.stored, dict(self.observed.pods))
            self.tick()
            self.reap()
            if before == (self.stored, dict(self.observed.pods)):
                return self.status
        raise AssertionError("it never settles")

    def do(self, step: Step) -> None:
        match step:
            case CreatePods():
                for index in step.indexes:
                    self._create(step, index)
            case KillPods():
                for index in step.indexes:
                    pod = self.observed.pod(step.task, index, step.attempt)
                    if pod is not None and not pod.terminating:
                        self.observed.put(msgspec.structs.replace(pod, terminating=True, since=self.now))
            case FailPods():
                for index in step.indexes:
                    self.set_pod(step.task, index, "Failed")
            case DeleteCommand():
                self.observed.commands.pop(step.uid, None)
            case EmitEvent():
                self.events.append(step)
            case DeleteJob():
                self.deleted = True

    def _create(self, step: CreatePods, index: int) -> None:
        key = (step.task, index, step.attempt)
        if key in self.observed.pods:
            return
        assert key not in self.born, f"a second pod for {key}"
        assert self.at(step.task, index) is None, f"a pod of another attempt is still there: {key}"
        self.born.add(key)
        uid = "{}-{}-{}".format(*key)
        pod = PodFact(
            *key[:2],
            uid=uid,
            attempt=step.attempt,
            version=step.version,
            created=self.now,
            since=self.now,
        )
        self.observed.put(pod)

    def reap(self) -> None:
        for pod in list(self.observed.pods.values()):
            if pod.terminating:
                self.observed.drop(pod.uid)

    # What happens to the pods.

    def at(self, task_name: str, index: int) -> PodFact | None:
        """The pod at this index, of whatever attempt."""
        for (name, place, _), pod in self.observed.pods.items():
            if (name, place) == (task_name, index):
                return pod
        return None

    def set_pod(self, task_name: str, index: int, phase: str, code: int | None = None, **fields: Any) -> None:
        pod = self.at(task_name, index)
        assert pod is not None, f"no pod {task_name}-{index}"
        if code is not None:
            fields.setdefault("failure", Failure("main", code, reason="Error", at=self.now))
        changes = {"phase": phase, "ready": phase == "Running", "since": self.now, **fields}
        self.observed.put(msgspec.structs.replace(pod, **changes))
        if phase == "Succeeded":
            self.succeeded.add((task_name, index, pod.attempt))

    def all(self, phase: str, *task_names: str) -> None:
        for pod in list(self.observed.pods.values()):
            if (not task_names or pod.task in task_names) and not pod.done and not pod.terminating:
                self.set_pod(pod.task, pod.index, phase)

    def vanish(self, task_name: str, index: int) -> None:
        pod = self.at(task_name, index)
        assert pod is not None
        self.observed.drop(pod.uid)

    def command(self, action: str, uid: str | None = None) -> None:
        self.asked += 1
        uid = uid or f"command-{self.asked}"
        self.observed.commands[uid] = Command(uid, action)

    def change(self, **spec: Any) -> None:
        self.job = Job({**self.job.doc, "spec": {**self.job.doc["spec"], **spec}})

    def scale(self, **replicas: int) -> None:
        tasks = [
            {**entry, "replicas": replicas.get(entry["name"], entry["replicas"])}
            for entry in self.job.doc["spec"]["tasks"]
        ]
        self.change(tasks=tasks)

    def running(self) -> Simulation:
        """Every pod is up."""
        self.settle()
        self.all("Running")
        self.settle()
        assert self.phase == Phase.RUNNING
        return self

    def live(self) -> set[tuple[str, int]]:
        return {(pod.task, pod.index) for pod in self.observed.pods.values() if not pod.done}

    def attempts(self) -> dict[str, int]:
        return {f"{pod.task}-{pod.index}": pod.attempt for pod in self.observed.pods.values()}


def world_with(
    *policies: dict[str, Any], task_policies: Iterable[dict[str, Any]] = (), **spec: Any
) -> Simulation:
    """A Job of two tasks that runs, with these policies of its own and of its task `worker`."""
    worker = task("worker", 3, policies=list(task_policies))
    return Simulation(job(worker, task("other", 1), policies=list(policies), **spec)).running()
