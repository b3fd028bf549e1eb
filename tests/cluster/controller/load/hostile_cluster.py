"""A controller's workers on a fake API server with a thousand ordinary Jobs, and everything that hostile tenants create."""

from __future__ import annotations

import asyncio
import sys
from asyncio.events import Handle
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, cast

import msgspec

from tests.admission import expensive_jobs
from tests.cluster.controller.harness import NAMESPACE, FakeApi, _read
from tests.cluster.controller.jobs import Object, job, task
from tests.cluster.controller.volcano.test_schedulers import ready_part
from vcjob.cluster.controller.controller import Controller
from vcjob.cluster.controller.options import ControllerOptions
from vcjob.cluster.controller.telemetry import Silent
from vcjob.cluster.resources import (
    PARTIAL_JOBS,
    PARTIAL_PODS,
    PartialCommand,
)
from vcjob.kube.api.client import Client

ORDINARY = 1000
#: A Job with 48 tasks in 12 layers took 5.5 s for one decision, one of 1,500 unknown names 11 s for its admission.
HOSTILE: dict[str, Object] = {
    "layers": expensive_jobs.layers(48),
    "chain": expensive_jobs.chain(600),
    "unknown-names": expensive_jobs.unknown_dependencies(1500),
    "similar-names": expensive_jobs.similar_dependencies(1500),
    "many-tasks": expensive_jobs.many_tasks(400),
    "policies": expensive_jobs.policies(300),
    "replicas": expensive_jobs.replicas(2_000),
    "commands": job("commands", task("a", 1)),
}
COMMANDS, IMITATIONS, CONFIG_MAPS = 4000, 1000, 250


class YieldingApi(FakeApi):
    """A fake API server whose answers take one turn of the loop, as real ones do at least. `served` is set when all
    ordinary Jobs have their pods."""

    def __init__(self) -> None:
        super().__init__()
        self.missing = {f"j{number}-a-{index}" for number in range(ORDINARY) for index in range(2)}
        self.served = asyncio.Event()

    async def create(self, resource: Any, body: Any, namespace: str = "", **options: Any) -> Any:
        await asyncio.sleep(0)
        if resource.plural == "subjectaccessreviews":
            return msgspec.convert({"status": {"allowed": False}}, resource.model)
        made = await super().create(resource, body, namespace, **options)
        if resource.plural == "pods":
            self.missing.discard(made.metadata.name)
            if not self.missing:
                self.served.set()
        return made

    async def patch(self, resource: Any, name: str, patch: Object, namespace: str, **options: Any) -> Any:
        await asyncio.sleep(0)
        return await super().patch(resource, name, patch, namespace, **options)


class Cluster:
    """A controller's workers on a fake API server; Jobs reach it as from the watch."""

    def __init__(self) -> None:
        self.api = YieldingApi()
        # Counters that are written after a second would make the number of calls depend on the machine.
        options = ControllerOptions(gang="none", status_delay=600.0)
        self.controller = Controller(cast(Client, self.api), options, Silent(), "test")

    def add_job(self, name: str, document: Object) -> None:
        meta = {**document["metadata"], "name": name, "uid": f"{name}-uid", "generation": 1}
        made = self.api.put("jobs", {**document, "metadata": meta})
        self.controller.jobs.job_changed(_read(PARTIAL_JOBS, made))

    async def serve_ordinary_jobs(self, *others: Coroutine[Any, Any, None]) -> None:
        """Run the workers, and `others` with them, until all ordinary Jobs have their pods."""
        workers = [asyncio.create_task(self.controller._work()) for _ in range(16)]
        workers += map(asyncio.create_task, others)
        served = asyncio.create_task(self.api.served.wait())
        try:
            await asyncio.wait({served, *workers}, return_when=asyncio.FIRST_COMPLETED)
            assert served.done(), [worker for worker in workers if worker.done()]
        finally:
            self.controller.queue.close()
            for one in (served, *workers):
                one.cancel()
            await asyncio.gather(served, *workers, return_exceptions=True)

    def add_ordinary_jobs(self) -> None:
        for number in range(ORDINARY):
            self.add_job(f"j{number}", job("j", task("a", 2)))

    def add_commands(self, action: Callable[[int], str]) -> None:
        for number in range(COMMANDS):
            meta = {"name": f"c{number}", "namespace": NAMESPACE, "uid": f"c{number}"}
            meta["resourceVersion"] = str(number + 1)
            target = {"kind": "Job", "name": "commands"}
            command = {"metadata": meta, "action": action(number), "target": target}
            self.api.put("commands", command)
            self.controller.jobs.command_added(msgspec.convert(command, PartialCommand))

    def add_hostile(self) -> None:
        for name, document in HOSTILE.items():
            self.add_job(name, document)
        self.add_commands(lambda number: "ResumeJob")
        for uid in ("j0-uid", "nobody"):  # hand-made pods with an owner reference to any uid
            for index in ("2000000000", "²", "-1", "9" * 4000):
                self.controller.jobs.pod_changed(_read(PARTIAL_PODS, foreign_pod(uid, index)))
        for app in ("volcano-controller", "volcano-scheduler"):
            for number in range(IMITATIONS):
                part = ready_part(app, f"account-{number}", f"{app}-{number}")
                self.controller._schedulers._parts._put(part)


def owner(uid: str) -> Object:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": uid.removesuffix("-uid"),
        "uid": uid,
        "controller": True,
    }


def foreign_pod(uid: str, index: str) -> Object:
    """A pod that somebody made by hand, with the name, the marks and the owner of one of the Job's own."""
    name = f"{owner(uid)['name']}-a-{index}"
    marks = {"volcano.sh/task-spec": "a", "volcano.sh/task-index": index, "vcjob.io/attempt": index}
    meta = {"name": name, "namespace": NAMESPACE, "uid": name, "resourceVersion": "1"}
    return {
        "metadata": {**meta, "annotations": marks, "ownerReferences": [owner(uid)]},
        "status": {"phase": "Running"},
    }


class LoopSteps:
    """The function calls that the event loop made, in all and at most in one step."""

    most = total = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        step, calls = Handle._run.__code__, 0

        def profile(frame: Any, event: str, _arg: object) -> None:
            nonlocal calls
            if frame.f_code is step:
                self.most = max(self.most, calls)
                calls = 0
            if event in ("call", "c_call"):
                calls += 1
                self.total += 1

        sys.setprofile(profile)
        try:
            yield
        finally:
            sys.setprofile(None)
