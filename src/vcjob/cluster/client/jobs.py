"""Jobs of a cluster for the SDK: create, read, watch and delete them, send Commands, list their pods and events.

Knows nothing of the command line. Errors of the API server are translated by `error_messages`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from contextlib import aclosing
from typing import Any

import msgspec

from vcjob.cluster.client.error_messages import translate_api_errors
from vcjob.cluster.client.pod_view import POD_VIEWS, PodView, belongs_to
from vcjob.cluster.client.served_jobs import is_served
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
from vcjob.report.events import event_time
from vcjob.wellknown.annotations import SUBMISSION

#: Seconds without a response after which a server counts as unreachable, for a person at a terminal.
PATIENCE = 5.0
#: How long to wait for the pods of a deleted Job to end; those of a lost node never do.
_PODS_GONE_SECONDS = 60.0


class JobKey(msgspec.Struct, frozen=True):
    """Identifies one Job (or Command), even if another one gets its name later.

    Handles of the SDK keep it; requests about the Job name the uid, so that they never concern another Job.
    """

    name: str
    namespace: str
    uid: str

    @classmethod
    def of(cls, job: Document) -> JobKey:
        metadata = job["metadata"]
        return cls(metadata["name"], metadata["namespace"], metadata["uid"])


class JobClient:
    """The Jobs of one cluster. Its methods run on the event loop of a `LoopThread`; `close` it at the end.

    Each connection of the SDK owns one. Errors are those that users see: NoSuchJob, JobExists, Denied and
    BackendError, with a hint (`error_messages`).
    """

    def __init__(self, config: ClusterConfig) -> None:
        self.config = config
        self.client = Client(config, transport=Transport(config, retry_seconds=PATIENCE))

    async def close(self) -> None:
        await self.client.close()

    # Jobs

    async def jobs(self, namespace: str | None) -> list[Document]:
        """All Jobs of a namespace, or of every namespace, oldest first."""
        with translate_api_errors(self.config, "list Jobs", namespace):
            found = await self.client.list(JOBS, namespace)
        for job in found:
            _complete(job)
        return sorted(found, key=lambda job: (job["metadata"]["creationTimestamp"], job["metadata"]["name"]))

    async def job(self, name: str, namespace: str, uid: str | None = None) -> Document:
        """The Job of that name; with `uid`, only if it is that Job. Raises `NoSuchJob`."""
        with translate_api_errors(self.config, "read Jobs", namespace):
            try:
                found = await self.client.get(JOBS, name, namespace)
            except NotFound as error:
                if not error.details.get("name"):
                    raise  # the cluster does not know Jobs
                raise NoSuchJob(
                    f"no job {name!r} in the namespace {namespace!r} of the cluster",
                    hint=f"`vcjob list --on cluster -n {namespace}` shows the existing ones",
                ) from error
        if uid is not None and found["metadata"]["uid"] != uid:
            raise NoSuchJob(f"the job {name!r} was deleted; another one has its name now")
        return _complete(found)

    async def watch_job(self, key: JobKey) -> AsyncGenerator[Document | None, None]:
        """The Job now and after each change; finally None when it has been deleted."""
        by_name = f"metadata.name={key.name}"
        with translate_api_errors(self.config, "watch Jobs", key.namespace):
            async with aclosing(follow(self.client, JOBS, namespace=key.namespace, fields=by_name)) as news:
                async for step in news:
                    for gone, job in _changes(step):
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
        """The Job as soon as `holds` is true of its status; raises `NoSuchJob` when it is deleted before."""
        async with aclosing(self.watch_job(key)) as news:
            async for job in news:
                if job is None:
                    break
                if holds(Status.readable(job.get("status"))):
                    return job
        raise NoSuchJob(f"the job {key.name!r} was deleted")

    async def create(
        self, job: Document, namespace: str, companions: Iterable[Document], *, strict: bool
    ) -> Document:
        """Create a Job and the objects of its file. A finished Job of its name is deleted first; a live one is an error.

        strict: the server refuses a field that it does not know instead of dropping it.
        """
        for companion in companions:
            await self._apply(companion, namespace)
        job = _with_submission(job)
        with translate_api_errors(self.config, "create Jobs", namespace):
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
                    if _submission(there) == _submission(job):
                        return there  # created by an earlier attempt of ours whose response was lost
                    await self._delete_finished(there)

    async def _delete_finished(self, old: Document) -> None:
        name, namespace = old["metadata"]["name"], old["metadata"]["namespace"]
        status = Status.readable(old.get("status"))
        if not status.over:
            options = f"{name} --on cluster -n {namespace}"
            raise JobExists(
                f"job {name!r} already exists and is {status.phase}",
                hint=f"see it with `vcjob status {options}`, end it with `vcjob delete {options}`, "
                "or give this one another name: --name for a script, metadata.name in a Job file",
            )
        await self.delete(JobKey.of(old), pods_too=False)

    async def _apply(self, document: Document, namespace: str) -> None:
        resource: Resource[Document] | None = known(document["apiVersion"], document["kind"])
        assert resource is not None, "a Job's file contains built-in kinds only"
        name = document["metadata"]["name"]
        with translate_api_errors(self.config, f"apply the {resource.kind} {name!r}", namespace):
            await self.client.apply(
                resource, name, document, document["metadata"].get("namespace") or namespace
            )

    async def delete(self, key: JobKey, *, pods_too: bool = True) -> None:
        """Delete the Job and wait until it is gone, and its pods too."""
        with translate_api_errors(self.config, "delete Jobs", key.namespace):
            try:
                there = await self.client.delete(JOBS, key.name, key.namespace, uid=key.uid)
            except Conflict:
                there = False  # another Job has its name: ours is gone
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

    async def delete_unserved(self, key: JobKey) -> bool:
        """Delete a Job that no controller has picked up; False where one has. Its Commands are deleted with it."""
        with translate_api_errors(self.config, "delete Jobs", key.namespace):
            while True:
                try:
                    job = await self.job(key.name, key.namespace, key.uid)
                except NoSuchJob:
                    return True
                if await is_served(self.client, job):
                    return False
                try:
                    version = job["metadata"]["resourceVersion"]
                    await self.client.delete(
                        JOBS, key.name, key.namespace, uid=key.uid, resource_version=version
                    )
                    return True
                except Conflict:
                    continue  # written in between, perhaps by a controller

    # Pods and events

    async def pods(self, key: JobKey) -> list[PodView]:
        with translate_api_errors(self.config, "list pods", key.namespace):
            found = await self.client.list(POD_VIEWS, key.namespace, labels=f"{JOB_NAME}={key.name}")
        return [pod for pod in found if belongs_to(pod, key.uid)]

    async def events(self, key: JobKey, pods: Collection[str] | None = None) -> list[Document]:
        """Events of the Job and of its existing pods, oldest first; `pods` are their uids, if they are known."""
        with translate_api_errors(self.config, "list events", key.namespace):
            listed = await self.client.list(EVENTS, key.namespace)
        uids = {key.uid, *([pod.uid for pod in await self.pods(key)] if pods is None else pods)}
        found = [event for event in listed if (event.get("involvedObject") or {}).get("uid") in uids]
        for event in found:
            event["metadata"].pop("managedFields", None)
        return sorted(found, key=lambda event: event_time(event) or "")

    # Actions

    async def send(self, key: JobKey, action: str) -> JobKey:
        """Create a Command for the controller, as `vcctl` does, and return its key."""
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
        with translate_api_errors(self.config, "create Commands", key.namespace):
            made = await self.client.create(COMMANDS, command, key.namespace)
        return JobKey.of(made)

    async def annotate(self, key: JobKey, annotation: str, value: str) -> None:
        """Set one annotation of the Job, unless another Job has its name now."""
        change = {"uid": key.uid, "annotations": {annotation: value}}
        await self.client.patch(JOBS, key.name, {"metadata": change}, key.namespace)

    async def wait_for_command(self, command: JobKey, seconds: float) -> None:
        """Wait until the controller has recorded a Command, which it then deletes."""
        try:
            async with asyncio.timeout(seconds):
                while await self._has(command):  # noqa: ASYNC110 - the event is on the server
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise BackendError(
                f"no controller has handled the request for {seconds:.0f} s; it stays in the cluster until one does",
                hint=f"`vcjob doctor --on cluster -n {command.namespace}` shows whether a controller serves the namespace",
            ) from None

    async def _has(self, command: JobKey) -> bool:
        with translate_api_errors(self.config, "read Commands", command.namespace):
            try:
                found = await self.client.get(COMMANDS, command.name, command.namespace)
            except NotFound:
                return False
        return bool(found["metadata"]["uid"] == command.uid)

    async def kill_pods(self, key: JobKey) -> None:
        """Delete the pods that still run, with a grace period of one second."""
        with translate_api_errors(self.config, "delete pods", key.namespace):
            for pod in await self.pods(key):
                if not pod.finished:
                    try:
                        await self.client.delete(
                            POD_VIEWS, pod.name, key.namespace, uid=pod.uid, grace_seconds=1
                        )
                    except Conflict:
                        pass


def _with_submission(job: Document) -> Document:
    """The Job with an annotation that identifies this submission."""
    metadata = job["metadata"]
    annotations = {**(metadata.get("annotations") or {}), SUBMISSION: uuid.uuid4().hex}
    return {**job, "metadata": {**metadata, "annotations": annotations}}


def _submission(job: Document) -> str:
    return str((job["metadata"].get("annotations") or {}).get(SUBMISSION, ""))


def _complete(job: Document) -> Document:
    """Add the kind, which items of a list lack, and drop managedFields, which users do not need."""
    job.setdefault("apiVersion", JOBS.api_version)
    job.setdefault("kind", JOBS.kind)
    job["metadata"].pop("managedFields", None)
    return job


def _changes(step: Snapshot[Any] | Batch[Any]) -> Iterable[tuple[bool, Any]]:
    if isinstance(step, Snapshot):
        return [(False, found) for found in step.items]
    return [(change.type == "DELETED", change.object) for change in step.changes]
