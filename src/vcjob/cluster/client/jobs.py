"""The cluster as the verbs see it: Jobs, their pods and events, and what can be asked of a Job."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import Any

import msgspec

from vcjob.cluster.client.error_messages import told
from vcjob.cluster.client.pod_view import SEEN_PODS, PodView, belongs_to
from vcjob.cluster.resources import COMMANDS, JOBS
from vcjob.errors import BackendError, JobExists, NoSuchJob
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import EVENTS, Document, Resource, known
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.controller.watch import Batch, Snapshot, follow
from vcjob.kube.errors import AlreadyExists, Conflict, NotFound
from vcjob.kube.http.transport import Transport
from vcjob.lifecycle.status import Status
from vcjob.plan.names import JOB_NAME

#: For a person at a terminal: a server that does not answer for this long is not there.
PATIENCE = 5.0
#: On a Job that a verb made: which call made it.
SUBMISSION = "vcjob.io/submission"
#: How long the pods of a deleted Job are waited for; a node that is lost keeps them for ever.
_PODS_GONE_SECONDS = 60.0


class JobKey(msgspec.Struct, frozen=True):
    """One Job, also where another one gets its name later."""

    name: str
    namespace: str
    uid: str

    @classmethod
    def of(cls, job: Document) -> JobKey:
        metadata = job["metadata"]
        return cls(metadata["name"], metadata["namespace"], metadata["uid"])


class JobClient:
    def __init__(self, config: ClusterConfig) -> None:
        self.config = config
        self.client = Client(config, transport=Transport(config, retry_seconds=PATIENCE))

    async def close(self) -> None:
        await self.client.close()

    # Jobs

    async def jobs(self, namespace: str | None) -> list[Document]:
        """All Jobs, oldest first; of every namespace where none is named."""
        with told(self.config, "list Jobs", namespace):
            found = await self.client.list(JOBS, namespace)
        for job in found:
            _complete(job)
        return sorted(found, key=lambda job: (job["metadata"]["creationTimestamp"], job["metadata"]["name"]))

    async def job(self, name: str, namespace: str, uid: str | None = None) -> Document:
        """The Job of that name; with `uid` this very one."""
        with told(self.config, "read Jobs", namespace):
            try:
                found = await self.client.get(JOBS, name, namespace)
            except NotFound as error:
                if not error.details.get("name"):
                    raise  # there are no Jobs at all
                raise NoSuchJob(
                    f"no job {name!r} in the namespace {namespace!r} of the cluster",
                    hint=f"`vcjob list --on cluster -n {namespace}` shows those that are there",
                ) from error
        if uid is not None and found["metadata"]["uid"] != uid:
            raise NoSuchJob(f"the job {name!r} was deleted; another one has its name now")
        return _complete(found)

    async def watch_job(self, key: JobKey) -> AsyncGenerator[Document | None, None]:
        """The Job now and whenever it changes; None, as the last, when it is gone."""
        by_name = f"metadata.name={key.name}"
        with told(self.config, "watch Jobs", key.namespace):
            async with aclosing(follow(self.client, JOBS, namespace=key.namespace, fields=by_name)) as news:
                async for step in news:
                    for gone, job in _seen(step):
                        if job["metadata"]["uid"] != key.uid:
                            continue
                        if gone:
                            yield None
                            return
                        yield _complete(job)
                    if isinstance(step, Snapshot) and not any(
                        job["metadata"]["uid"] == key.uid for job in step.items
                    ):
                        yield None
                        return

    async def wait_for(self, key: JobKey, holds: Callable[[Status], bool]) -> Document:
        """The Job once its status is as awaited."""
        async with aclosing(self.watch_job(key)) as news:
            async for job in news:
                if job is None:
                    break
                if holds(Status.from_kube(job.get("status"))):
                    return job
        raise NoSuchJob(f"the job {key.name!r} was deleted")

    async def create(
        self, job: Document, namespace: str, companions: Iterable[Document], *, strict: bool
    ) -> Document:
        """Make a Job and what stands beside it. One of its name that is over makes room; a live one does not.

        strict: a field that the cluster does not know is refused instead of lost.
        """
        for companion in companions:
            await self._apply(companion, namespace)
        job = _marked(job)
        with told(self.config, "create Jobs", namespace):
            while True:
                try:
                    made = await self.client.create(
                        JOBS, job, namespace, field_validation="Strict" if strict else None
                    )
                    return _complete(made)
                except AlreadyExists:
                    try:
                        there = await self.job(job["metadata"]["name"], namespace)
                    except NoSuchJob:
                        continue
                    if _mark(there) == _mark(job):
                        return there  # made by an earlier try of ours whose answer was lost
                    await self._make_room(there)

    async def _make_room(self, old: Document) -> None:
        name, namespace = old["metadata"]["name"], old["metadata"]["namespace"]
        status = Status.from_kube(old.get("status"))
        if not status.over:
            options = f"{name} --on cluster -n {namespace}"
            raise JobExists(
                f"the job {name!r} is there already, and it is {status.phase}",
                hint=f"see it with `vcjob status {options}`, end it with `vcjob delete {options}`, "
                "or give this one another name (metadata.name)",
            )
        await self.delete(JobKey.of(old), pods_too=False)

    async def _apply(self, document: Document, namespace: str) -> None:
        resource: Resource[Document] | None = known(document["apiVersion"], document["kind"])
        assert resource is not None, "only kinds that every cluster has stand beside a Job"
        name = document["metadata"]["name"]
        with told(self.config, f"apply the {resource.kind} {name!r}", namespace):
            await self.client.apply(
                resource, name, document, document["metadata"].get("namespace") or namespace
            )

    async def delete(self, key: JobKey, *, pods_too: bool = True) -> None:
        """Have the Job go and wait until it is gone, with its pods."""
        with told(self.config, "delete Jobs", key.namespace):
            try:
                there = await self.client.delete(JOBS, key.name, key.namespace, uid=key.uid)
            except Conflict:
                there = False  # a namesake: ours is gone
            if there:
                async with aclosing(self.watch_job(key)) as news:
                    async for job in news:
                        if job is None:
                            break
        if pods_too:
            try:
                async with asyncio.timeout(_PODS_GONE_SECONDS):
                    while await self.pods(key):  # noqa: ASYNC110 - the event is on the server
                        await asyncio.sleep(0.5)
            except TimeoutError:
                pass

    # What belongs to a Job

    async def pods(self, key: JobKey) -> list[PodView]:
        with told(self.config, "list pods", key.namespace):
            found = await self.client.list(SEEN_PODS, key.namespace, labels=f"{JOB_NAME}={key.name}")
        return [pod for pod in found if belongs_to(pod, key.uid)]

    async def events(self, key: JobKey) -> list[Document]:
        """What happened to the Job and to the pods that are still there, oldest first."""
        with told(self.config, "list events", key.namespace):
            listed = await self.client.list(EVENTS, key.namespace)
        uids = {key.uid, *(pod.uid for pod in await self.pods(key))}
        found = [event for event in listed if (event.get("involvedObject") or {}).get("uid") in uids]
        for event in found:
            event["metadata"].pop("managedFields", None)
        return sorted(found, key=when)

    # Acting

    async def send(self, key: JobKey, action: str) -> JobKey:
        """Ask the controller for an action, as `vcctl` does; returns the Command."""
        target = {
            "apiVersion": JOBS.api_version,
            "kind": JOBS.kind,
            "name": key.name,
            "uid": key.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        command = {
            "apiVersion": COMMANDS.api_version,
            "kind": COMMANDS.kind,
            "metadata": {
                "generateName": f"{key.name}-{action.lower()}-",
                "namespace": key.namespace,
                "ownerReferences": [target],
            },
            "target": target,
            "action": action,
        }
        with told(self.config, "create Commands", key.namespace):
            made = await self.client.create(COMMANDS, command, key.namespace)
        return JobKey.of(made)

    async def wait_taken(self, command: JobKey, seconds: float) -> None:
        """Until the controller has written a Command down: then it deletes it."""
        try:
            async with asyncio.timeout(seconds):
                while await self._has(command):  # noqa: ASYNC110 - the event is on the server
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise BackendError(
                f"no controller has taken the request up for {seconds:.0f} s; it stays there for when one does",
                hint="does vcjob's controller run? `vcjob doctor --on cluster` looks",
            ) from None

    async def _has(self, command: JobKey) -> bool:
        with told(self.config, "read Commands", command.namespace):
            try:
                found = await self.client.get(COMMANDS, command.name, command.namespace)
            except NotFound:
                return False
        return bool(found["metadata"]["uid"] == command.uid)

    async def kill_pods(self, key: JobKey) -> None:
        """End the pods that still run, with no more than a second's grace."""
        with told(self.config, "delete pods", key.namespace):
            for pod in await self.pods(key):
                if not pod.finished:
                    try:
                        await self.client.delete(
                            SEEN_PODS, pod.name, key.namespace, uid=pod.uid, grace_seconds=1
                        )
                    except Conflict:
                        pass


def _marked(job: Document) -> Document:
    """The Job with a word of its own, by which it is known again."""
    metadata = job["metadata"]
    annotations = {**(metadata.get("annotations") or {}), SUBMISSION: uuid.uuid4().hex}
    return {**job, "metadata": {**metadata, "annotations": annotations}}


def _mark(job: Document) -> str:
    return str((job["metadata"].get("annotations") or {}).get(SUBMISSION, ""))


def when(event: Document) -> str:
    """The moment of an event, as it stands in one of the places that Kubernetes has for it."""
    found = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"]
    return str(found)


def _complete(job: Document) -> Document:
    """Lists leave out what all their items have in common. Who wrote which field is for machines alone."""
    job.setdefault("apiVersion", JOBS.api_version)
    job.setdefault("kind", JOBS.kind)
    job["metadata"].pop("managedFields", None)
    return job


def _seen(step: Snapshot[Any] | Batch[Any]) -> Iterable[tuple[bool, Any]]:
    if isinstance(step, Snapshot):
        return [(False, found) for found in step.items]
    return [(change.type == "DELETED", change.object) for change in step.changes]
