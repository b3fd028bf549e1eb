"""Creates, deletes and fails the pods of Jobs, many requests at a time.

Every answer goes into the Job's state at once, so that the next decision never rests on a view older than our own
last write. Nothing here decides what to do: the reconciler passes the lifecycle's steps.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import msgspec

from vcjob.cluster.controller.cache.job_cache import JobCache
from vcjob.cluster.controller.cache.job_state import JobState, Outdated
from vcjob.cluster.controller.cache.pod_tracker import HALF_DELETED_SECONDS, PodChange
from vcjob.cluster.controller.event_recorder import EventRecorder
from vcjob.cluster.controller.objects import concurrent_requests
from vcjob.cluster.controller.objects.api_refusals import is_refusal, refusal
from vcjob.cluster.controller.objects.concurrent_requests import CONCURRENT_REQUESTS, for_each, gather_all
from vcjob.cluster.controller.objects.name_conflicts import is_owned, name_conflict
from vcjob.cluster.controller.offload import LARGE_TASKS, Offload
from vcjob.cluster.resources import COMMANDS, JOBS, PARTIAL_PODS, PartialPod
from vcjob.kube.api.client import Client
from vcjob.kube.controller.informer import Informer
from vcjob.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, Unreachable
from vcjob.lifecycle.observed import Blocked
from vcjob.lifecycle.pod import PodFact
from vcjob.lifecycle.step import CreatePods, FailPods, KillPods
from vcjob.wellknown import reasons


class PodControl:
    """Carries out steps on pods, Commands and the Job itself for the reconciler. API errors that are not refusals
    are raised; the Job is then reconciled again."""

    def __init__(self, client: Client, jobs: JobCache, events: EventRecorder, offload: Offload) -> None:
        self._client = client
        self._jobs = jobs
        self._events = events
        self._offload = offload

    # Creation

    async def create(
        self, state: JobState, steps: Iterable[CreatePods], limit: int
    ) -> tuple[int, Blocked | None]:
        """Create up to `limit` of these pods. Returns how many of them exist now, and the refusal that ended the loop, if any."""
        steps = list(steps)
        pods = _pods(steps, limit)  # one iterator: the workers below share it
        created = 0
        refused: Blocked | None = None

        async def work() -> None:
            nonlocal created, refused
            for step, index in pods:
                if refused is not None:
                    return
                refused = await self._create_one(state, step, index) or refused
                created += refused is None

        wanted = sum(len(step.indexes) for step in steps)
        await gather_all(work() for _ in range(min(wanted, limit, CONCURRENT_REQUESTS)))
        return created, refused

    async def _create_one(self, state: JobState, step: CreatePods, index: int) -> Blocked | None:
        if state.plan is None:
            raise Outdated  # the Job was deleted meanwhile
        body = await self._offload.run(
            len(state.plan.job.tasks) >= LARGE_TASKS,
            state.plan.pod_json,
            step.task,
            index,
            version=step.version,
            attempt=step.attempt,
            retries=step.retries,
        )

        def warn(message: str) -> None:  # pod security in warn mode, a variable given twice
            self._events.emit(state, "Warning", reasons.POD_WARNING, f"pods of task {step.task}: {message}")

        creating = (step.task, index, step.attempt)
        state.pods.creating.add(creating)
        try:
            pod = await self._client.create(PARTIAL_PODS, body, state.namespace, on_warning=warn)
        except AlreadyExists:
            return await self._resolve_name_conflict(state, step.task, index, step.attempt)
        except (ApiError, Unreachable) as error:
            if isinstance(error, ApiError) and is_refusal(error):
                return refusal(error, f"pod {step.task}-{index}")
            if error.may_have_applied:
                state.pods.uncertain.add(creating)
            raise
        finally:
            state.pods.creating.discard(creating)
        known = state.observed.pod(step.task, index, step.attempt)
        if known is not None and known.uid == pod.metadata.uid:
            return None  # the watch was faster, and knows more
        return self._record(state, pod)

    def _record(self, state: JobState, pod: PartialPod) -> Blocked | None:
        if state.pods.record(pod) is PodChange.UNIDENTIFIED:
            return Blocked(
                reasons.POD_NOT_RECOGNISED,
                f"pod {pod.metadata.name} lacks the annotations that it was created with: does a webhook here "
                "remove them?",
            )
        state.pods.expect(pod)
        return None

    async def find(self, state: JobState, task: str, index: int) -> bool:
        """Whether a pod of this name exists; a pod of the Job is recorded."""
        try:
            pod = await self._client.get(PARTIAL_PODS, _name(state, task, index), state.namespace)
        except NotFound:
            return False
        if is_owned(pod.metadata.owner_references, state):
            self._record(state, pod)
        return True

    async def _resolve_name_conflict(
        self, state: JobState, task: str, index: int, attempt: int
    ) -> Blocked | None:
        """The name is in use: by a pod of the Job that we did not know of, or by another owner's."""
        name = _name(state, task, index)
        try:
            pod = await self._client.get(PARTIAL_PODS, name, state.namespace)
        except NotFound:
            state.pods.uncertain.add((task, index, attempt))  # it may have been this very one
            return Blocked(reasons.NAME_CONFLICT, f"pod {name} existed until just now; retrying")
        if is_owned(pod.metadata.owner_references, state):
            return self._record(state, pod)
        self._jobs.wait_for_name(state, "Pod", name)
        return name_conflict(pod.metadata.owner_references, state, f"pod {name}")

    # Deletion

    async def kill(self, state: JobState, step: KillPods, limit: int) -> int:
        """Delete up to `limit` of these pods. Returns the number of requests."""

        async def kill_one(fact: PodFact) -> None:
            await self._delete_pod(state, _name(state, fact.task, fact.index), fact.uid)
            known = state.observed.pod(fact.task, fact.index, fact.attempt)
            if known is not None and known.uid == fact.uid:  # else the watch has already shown its end
                state.observed.put(msgspec.structs.replace(known, terminating=True, since=self._client.now()))

        return await for_each(_facts(state, step), kill_one, limit)

    async def finish_deletions(self, state: JobState) -> None:
        """Delete again what the API server began to delete and did not finish, because it or the client died."""
        due = time.monotonic() - HALF_DELETED_SECONDS
        for uid, (name, since) in list(state.pods.half_deleted.items()):
            if since <= due:
                await self._delete_pod(state, name, uid)
                state.pods.half_deleted.pop(uid, None)

    async def delete_all(
        self, state: JobState, informer: Informer[PartialPod] | None, *, ended: bool = False
    ) -> bool:
        """Delete the pods of a deleted Job without waiting for the garbage collector, because running pods hold
        resources that others need; with `ended` also those that have ended. A part of them at a time: call it again
        until it returns True.

        Only pods that the Job owns by reference, unchanged since we saw that: a pod left behind on purpose
        (`--cascade=orphan`) has no owner any more and stays.
        """
        if state.pods.to_delete is None:
            found = [f for f in state.observed.pods.values() if not f.terminating and (ended or not f.done)]
            state.pods.to_delete = [
                pod
                for fact in found
                if informer is not None
                and (pod := informer.get(_name(state, fact.task, fact.index), state.namespace)) is not None
                and pod.metadata.uid == fact.uid
                and is_owned(pod.metadata.owner_references, state)
            ]
        pods = state.pods.to_delete
        chunk, state.pods.to_delete = pods[: concurrent_requests.CHUNK], pods[concurrent_requests.CHUNK :]

        async def delete(pod: PartialPod) -> None:
            meta = pod.metadata
            await self._delete_pod(state, meta.name, meta.uid, version=meta.resource_version)

        try:
            await for_each(chunk, delete, len(chunk))
        except BaseException:
            state.pods.to_delete = None  # listed again
            raise
        if state.pods.to_delete:
            return False
        state.pods.to_delete = None
        return True

    async def _delete_pod(self, state: JobState, name: str, uid: str, *, version: str | None = None) -> None:
        try:
            await self._client.delete(PARTIAL_PODS, name, state.namespace, uid=uid, resource_version=version)
        except Conflict:
            pass  # another pod has the name (ours is gone), or it changed

    async def fail(self, state: JobState, step: FailPods, limit: int) -> int:
        """Fail up to `limit` of these pods. Returns the number of requests.

        A pod gets a deadline of one second: the kubelet ends it as Failed and keeps its logs.
        """

        async def fail_one(fact: PodFact) -> None:
            patch = {"metadata": {"uid": fact.uid}, "spec": {"activeDeadlineSeconds": 1}}
            try:
                await self._client.patch(
                    PARTIAL_PODS, _name(state, fact.task, fact.index), patch, state.namespace
                )
            except (NotFound, Conflict):
                pass  # it is gone already
            state.pods.failing.add(fact.uid)

        waiting = (fact for fact in _facts(state, step) if fact.uid not in state.pods.failing)
        return await for_each(waiting, fail_one, limit)

    async def delete_command(self, state: JobState, uid: str) -> None:
        command = state.commands.get(uid)
        if command is not None:
            try:
                await self._client.delete(COMMANDS, command.metadata.name, state.namespace, uid=uid)
            except Conflict:
                pass
        state.commands.remove(uid)

    async def delete_job(self, state: JobState) -> None:
        try:
            await self._client.delete(JOBS, state.name, state.namespace, uid=state.uid)
        except Conflict:
            pass


def _facts(state: JobState, step: KillPods | FailPods) -> Iterator[PodFact]:
    return (fact for index in step.indexes if (fact := state.observed.pod(step.task, index, step.attempt)))


def _name(state: JobState, task: str, index: int) -> str:
    return f"{state.name}-{task}-{index}"


def _pods(steps: Iterable[CreatePods], limit: int) -> Iterator[tuple[CreatePods, int]]:
    for step in steps:
        for index in step.indexes:
            if limit <= 0:
                return
            limit -= 1
            yield step, index
