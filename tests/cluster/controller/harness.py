"""Runs the reconciler against a fake API server, one reconcile at a time, without a clock or a network."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from tests.testbed.api import Object
from vcjob.cluster.controller.cache.informers import Caches
from vcjob.cluster.controller.cache.job_cache import JobCache
from vcjob.cluster.controller.cache.job_state import JobState, QueueKey
from vcjob.cluster.controller.event_recorder import EventRecorder
from vcjob.cluster.controller.objects.owned_objects import RESOURCES
from vcjob.cluster.controller.options import ControllerOptions
from vcjob.cluster.controller.reconcile import Reconciler
from vcjob.cluster.controller.schedulers import Schedulers
from vcjob.cluster.controller.telemetry import Silent
from vcjob.cluster.resources import (
    PARTIAL_COSCHEDULING_GROUPS,
    PARTIAL_JOBS,
    PARTIAL_PODS,
    PartialJob,
    PartialPod,
)
from vcjob.kube.api.client import Client
from vcjob.kube.controller.queue import WorkQueue
from vcjob.kube.errors import AlreadyExists, Conflict, KubeError, NotFound

NAMESPACE, UID = "n", "job-uid"
OWNED = {kind.plural: kind for kind in RESOURCES.values() if kind is not PARTIAL_COSCHEDULING_GROUPS}
KEY = (NAMESPACE, UID)
#: In the metadata of what belongs to the Job.
OWNER = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "name": "j",
    "uid": UID,
    "controller": True,
}


class FakeApi:
    """Stores documents, counts requests, and fails those that `refuse` returns an error for."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.requests: Counter[tuple[str, str]] = Counter()
        self.refuse: Callable[[str, str, str], KubeError | None] = lambda verb, plural, name: None
        self.version = 100
        #: A warning returned with every creation.
        self.warning = ""
        #: The lines of each pod's log, with their times; reading one waits for `may_read`.
        self.log_lines: dict[str, list[str]] = {}
        self.may_read = asyncio.Event()
        self.may_read.set()

    def now(self) -> float:
        return time.time()

    def put(self, plural: str, document: Object) -> Object:
        self.version += 1
        meta = {"uid": f"uid-{self.version}", "namespace": NAMESPACE,
                "creationTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), **document["metadata"]}  # fmt: skip
        made = {**document, "metadata": {**meta, "resourceVersion": str(self.version)}}
        self.objects[plural, meta["name"]] = made
        return made

    async def create(
        self, resource: Any, body: Any, namespace: str, *, on_warning: Callable[[str], None] | None = None
    ) -> Any:
        document = msgspec.json.decode(body) if isinstance(body, bytes) else body
        name = document["metadata"].get("name", "")
        self._ask("create", resource.plural, name)
        if (resource.plural, name) in self.objects:
            raise AlreadyExists(409, server_message=f"{name} already exists")
        if self.warning and on_warning is not None:
            on_warning(self.warning)
        return _read(resource, self.put(resource.plural, document))

    async def get(self, resource: Any, name: str, namespace: str) -> Any:
        self._ask("get", resource.plural, name)
        return _read(resource, self._find(resource.plural, name))

    async def list(self, resource: Any, namespace: str, *, fields: str) -> list[Any]:
        self._ask("list", resource.plural, fields)
        return [
            _read(resource, doc) for (plural, _), doc in self.objects.items() if plural == resource.plural
        ]

    async def patch(self, resource: Any, name: str, patch: Object, namespace: str, **options: Any) -> Any:
        self._ask("patch", resource.plural, name)
        found = self._find(resource.plural, name)
        guard = dict(patch.get("metadata") or {})
        if any(found["metadata"].get(key) != value for key, value in guard.items()):
            raise Conflict(409, server_message="changed in between")
        rest = {key: value for key, value in patch.items() if key != "metadata"}
        return _read(resource, self.put(resource.plural, merged(found, rest)))

    async def delete(
        self,
        resource: Any,
        name: str,
        namespace: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> bool:
        self._ask("delete", resource.plural, name)
        found = self.objects.get((resource.plural, name))
        if found is not None and uid not in (None, found["metadata"]["uid"]):
            raise Conflict(409, server_message="another one of that name")
        if found is not None and resource_version not in (None, found["metadata"]["resourceVersion"]):
            raise Conflict(409, server_message="changed in between")
        return self.objects.pop((resource.plural, name), None) is not None

    async def logs(self, pod: str, namespace: str, **options: Any) -> AsyncGenerator[bytes, None]:
        self._ask("get", "pods/log", pod)
        await self.may_read.wait()
        for line in self.log_lines.get(pod, []):
            yield line.encode()

    def _ask(self, verb: str, plural: str, name: str) -> None:
        self.requests[verb, plural] += 1
        error = self.refuse(verb, plural, name)
        if error is not None:
            raise error

    def _find(self, plural: str, name: str) -> Object:
        if (plural, name) not in self.objects:
            raise NotFound(404, server_message=f"{name} not found")
        return self.objects[plural, name]


def refusing(verb: str, plural: str, error: Callable[[], KubeError]) -> Callable[..., Any]:
    """For `FakeApi.refuse`: every such request fails."""
    return lambda asked, kind, name: error() if (asked, kind) == (verb, plural) else None


def _read(resource: Any, document: Object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(document), type=resource.model)


def merged(document: Any, patch: Any) -> Any:
    """A document after a merge patch, as RFC 7386 has it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


class FakeQueue:
    """A queue that only records when the Job asks to be reconciled again."""

    def __init__(self) -> None:
        self.soon = False
        self.later: list[float] = []

    def __len__(self) -> int:
        return 0

    def add(self, key: QueueKey) -> None:
        self.soon = True

    def add_after(self, key: QueueKey, seconds: float) -> None:
        if seconds <= 0.05:
            self.soon = True
        else:
            self.later.append(seconds)


class _NoSchedulers:
    def choose(self, job: object) -> str:
        return "none"

    def replaced(self, job: object, gang: str) -> None:
        return None


class _NoPods:
    """An informer of pods that is as far behind as a test wants."""

    resource_version = 0

    def __init__(self) -> None:
        self.known: dict[str, PartialPod] = {}

    def get(self, name: str, namespace: str) -> PartialPod | None:
        return self.known.get(name)

    def of(self, namespace: str) -> _NoPods:
        return self


class _NoCaches:
    def __init__(self) -> None:
        self.pods = _NoPods()

    def priorities(self) -> dict[str, int]:
        return {}


class Harness:
    def __init__(self, job: Object, **options: Any) -> None:
        self.api = FakeApi()
        self._options = options
        self._begin_term()
        self.change(job)

    def _begin_term(self) -> None:
        self.queue = FakeQueue()
        self.caches = _NoCaches()
        self.jobs = JobCache(lambda key, seconds: self.queue.add_after(key, seconds))
        client = cast(Client, self.api)
        self.events = EventRecorder(client, "test")
        self.reconciler = Reconciler(
            client,
            self.jobs,
            cast("WorkQueue[QueueKey]", self.queue),
            schedulers=cast(Schedulers, _NoSchedulers()),
            events=self.events,
            options=ControllerOptions(**{"failure_logs": False, **self._options}),
            telemetry=Silent(),
            caches=cast(Caches, self.caches),
        )

    def take_over(self) -> None:
        """The controller was killed, and the next leader starts with what the API server has."""
        self._begin_term()
        self.relist()

    def relist(self) -> None:
        """The watch restarts and lists everything."""
        for (plural, _), found in list(self.api.objects.items()):
            if plural == "jobs":
                self.jobs.job_changed(cast(PartialJob, _read(PARTIAL_JOBS, found)))
            elif plural == "pods":
                self.jobs.pod_changed(_read(PARTIAL_PODS, found))
            elif plural in OWNED:
                self.jobs.object_changed(OWNED[plural].kind, _read(OWNED[plural], found))

    def change(self, job: Object, **metadata: Any) -> None:
        """The Job as a user applies it."""
        old = self.api.objects.get(("jobs", job["metadata"]["name"]), {})
        meta = {"uid": UID, "generation": old.get("metadata", {}).get("generation", 0) + 1, **job["metadata"]}
        made = self.api.put("jobs", {**old, **job, "metadata": {**meta, **metadata}})
        self.jobs.job_changed(cast(PartialJob, _read(PARTIAL_JOBS, made)))

    async def reconcile(self) -> None:
        """Reconcile the Job until nothing more is due now."""
        for _ in range(30):
            self.queue.soon, self.queue.later = False, []
            await self.reconciler.reconcile(KEY)
            if not self.queue.soon:
                return
        raise AssertionError("the Job is reconciled without end")

    @property
    def state(self) -> JobState:
        state = self.jobs.get(KEY)
        assert state is not None
        return state

    @property
    def stored(self) -> Object:
        """The status as the API server has it."""
        found = next(doc for (plural, _), doc in self.api.objects.items() if plural == "jobs")
        status: Object = found.get("status") or {}
        return status

    def pods(self) -> list[str]:
        return sorted(name for plural, name in self.api.objects if plural == "pods")

    def lose(self, name: str) -> None:
        """A pod is deleted, and the watch shows it."""
        self.jobs.pod_gone(_read(PARTIAL_PODS, self.api.objects.pop(("pods", name))))

    def attempts(self) -> dict[str, str]:
        found = {name: doc for (plural, name), doc in self.api.objects.items() if plural == "pods"}
        return {name: doc["metadata"]["labels"]["vcjob.io/attempt"] for name, doc in found.items()}

    def delete_job(self) -> None:
        """A user deletes it; the garbage collector is slow."""
        made = self.api.objects.pop(("jobs", self.state.name))
        self.jobs.job_gone(cast(PartialJob, _read(PARTIAL_JOBS, made)))

    def show(self, name: str, phase: str, **status: Any) -> None:
        """The watch shows a pod in a phase."""
        self.jobs.pod_changed(self.next_sight(name, phase, **status))

    def next_sight(self, name: str, phase: str, **status: Any) -> PartialPod:
        """What the watch will show of a pod that goes on."""
        new = self.api.put("pods", {**self.api.objects["pods", name], "status": {"phase": phase, **status}})
        seen = self.caches.pods.known[name] = cast(PartialPod, _read(PARTIAL_PODS, new))
        return seen
