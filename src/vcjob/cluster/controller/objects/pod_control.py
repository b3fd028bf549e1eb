"""Doing the steps: pods made, ended and failed, as many at once as the API server bears.

Whatever comes back is put into the Job's view at once, so that the next decision never rests on a view
older than our own last write.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator

import msgspec

from vcjob.cluster.controller.cache.job_cache import JobCache
from vcjob.cluster.controller.cache.job_state import HALF_DELETED_SECONDS, JobState
from vcjob.cluster.controller.event_recorder import EventWriter
from vcjob.cluster.controller.objects.api_refusals import is_refusal, refusal
from vcjob.cluster.controller.status.patch import Outdated
from vcjob.cluster.resources import COMMANDS, JOBS, PARTIAL_PODS, PartialPod, controller_of
from vcjob.kube.api.client import Client
from vcjob.kube.controller.informer import Informer
from vcjob.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, Unreachable
from vcjob.lifecycle.observed import Blocked
from vcjob.lifecycle.pod import PodFact
from vcjob.lifecycle.step import CreatePods, FailPods, KillPods
from vcjob.wellknown import reasons

#: Requests of one Job that are under way at once; the client's window bounds those of all Jobs together.
AT_ONCE = 128


class PodControl:
    def __init__(self, client: Client, board: JobCache, events: EventWriter) -> None:
        self._client = client
        self._board = board
        self._events = events

    async def create(
        self, entry: JobState, steps: Iterable[CreatePods], limit: int
    ) -> tuple[int, Blocked | None]:
        """Make up to `limit` of these pods. How many are there now, and why it stopped if it was refused."""
        steps = list(steps)
        todo = _pods(steps, limit)
        made = 0
        refused: Blocked | None = None

        async def work() -> None:
            nonlocal made, refused
            for step, index in todo:
                if refused is not None:
                    return
                refused = await self._create_one(entry, step, index) or refused
                made += refused is None

        wanted = sum(len(step.indexes) for step in steps)
        await _together(work for _ in range(min(wanted, limit, AT_ONCE)))
        return made, refused

    async def _create_one(self, entry: JobState, step: CreatePods, index: int) -> Blocked | None:
        if entry.plan is None:
            raise Outdated  # the Job was deleted meanwhile
        body = entry.plan.pod_json(
            step.task, index, version=step.version, attempt=step.attempt, retries=step.retries
        )

        def warned(words: str) -> None:  # of what pod security would not allow, or a variable given twice
            self._events.tell(entry, "Warning", reasons.POD_WARNING, f"pods of task {step.task}: {words}")

        try:
            pod = await self._client.create(PARTIAL_PODS, body, entry.namespace, on_warning=warned)
        except AlreadyExists:
            return await self._meet(entry, step.task, index, step.attempt)
        except (ApiError, Unreachable) as error:
            if isinstance(error, ApiError) and is_refusal(error):
                return refusal(error, f"pod {step.task}-{index}")
            if error.maybe_done:
                entry.doubtful.add((step.task, index, step.attempt))
            raise
        known = entry.observed.pod(step.task, index, step.attempt)
        if known is not None and known.uid == pod.metadata.uid:
            return None  # the watch was faster, and knows more
        return self._take(entry, pod)

    def _take(self, entry: JobState, pod: PartialPod) -> Blocked | None:
        if not self._board.see_pod(entry, pod):
            return Blocked(
                reasons.POD_NOT_RECOGNISED,
                f"pod {pod.metadata.name} lacks the annotations that it was made with: does a webhook here remove them?",
            )
        entry.made(pod)
        return None

    async def look_for(self, entry: JobState, task: str, index: int) -> bool:
        """Whether a pod stands under this name; one of ours is taken in."""
        try:
            pod = await self._client.get(PARTIAL_PODS, _name(entry, task, index), entry.namespace)
        except NotFound:
            return False
        owner = controller_of(pod.metadata.owner_references)
        if owner is not None and owner.uid == entry.uid:
            self._take(entry, pod)
        return True

    async def _meet(self, entry: JobState, task: str, index: int, attempt: int) -> Blocked | None:
        """The name is taken: by a pod of ours that we did not know of, or by another's."""
        name = _name(entry, task, index)
        try:
            pod = await self._client.get(PARTIAL_PODS, name, entry.namespace)
        except NotFound:
            entry.doubtful.add((task, index, attempt))  # it may have been this very one
            return Blocked(reasons.NAME_CONFLICT, f"pod {name} was there a moment ago; it is tried again")
        owner = controller_of(pod.metadata.owner_references)
        if owner is not None and owner.uid == entry.uid:
            return self._take(entry, pod)
        self._board.wait_for(entry, "Pod", name)
        if owner is not None and owner.name == entry.name:
            return Blocked(
                reasons.PREVIOUS_JOB_TERMINATING, f"pod {name} is still there from the Job's earlier life"
            )
        return Blocked(
            reasons.NAME_CONFLICT,
            f"pod {name} exists and does not belong to this Job, so it is left alone; rename or delete it",
        )

    async def kill(self, entry: JobState, step: KillPods) -> None:
        async def end(fact: PodFact) -> None:
            await self._delete(entry, fact)

        await self._each(entry, step, end)

    async def _delete(self, entry: JobState, fact: PodFact) -> None:
        name = _name(entry, fact.task, fact.index)
        try:
            await self._client.delete(PARTIAL_PODS, name, entry.namespace, uid=fact.uid)
        except Conflict:
            pass  # a namesake stands there: ours is gone
        known = entry.observed.pod(fact.task, fact.index, fact.attempt)
        if known is not None and known.uid == fact.uid:  # else the watch has already shown its end
            entry.observed.put(msgspec.structs.replace(known, terminating=True, since=self._client.now()))

    async def finish_deletions(self, entry: JobState) -> None:
        """Ask again for what the API server began to delete and did not: whoever had asked died meanwhile, or it did."""
        due = time.monotonic() - HALF_DELETED_SECONDS
        for uid, (name, since) in list(entry.half_deleted.items()):
            if since > due:
                continue
            try:
                await self._client.delete(PARTIAL_PODS, name, entry.namespace, uid=uid)
            except Conflict:
                pass  # a namesake stands there: it is gone
            entry.half_deleted.pop(uid, None)

    async def clear(
        self, entry: JobState, cache: Informer[PartialPod] | None, *, ended: bool = False
    ) -> None:
        """The Job is deleted, and the garbage collector will end its pods, in its turn. What still runs holds
        processors that others wait for, so it is told at once; what has `ended` where the collector forgot it.

        Only a pod that is the Job's by its owner reference, and unchanged since we saw that: one that the Job was
        asked to leave behind (`--cascade=orphan`) has none any more, and lives on."""

        async def end(pod: PartialPod) -> None:
            meta = pod.metadata
            try:
                await self._client.delete(
                    PARTIAL_PODS,
                    meta.name,
                    meta.namespace,
                    uid=meta.uid,
                    resource_version=meta.resource_version,
                )
            except Conflict:
                pass

        there = [f for f in entry.observed.pods.values() if not f.terminating and (ended or not f.done)]
        known = [
            pod
            for fact in there
            if cache is not None
            and (pod := cache.get(_name(entry, fact.task, fact.index), entry.namespace)) is not None
            and pod.metadata.uid == fact.uid
            and (owner := controller_of(pod.metadata.owner_references)) is not None
            and owner.uid == entry.uid
        ]
        left = iter(known)

        async def work() -> None:
            for pod in left:
                await end(pod)

        await _together(work for _ in range(min(len(known), AT_ONCE)))

    async def fail(self, entry: JobState, step: FailPods) -> None:
        """A pod deadline of one second: the kubelet ends the pod as Failed and keeps its logs."""

        async def fail_one(fact: PodFact) -> None:
            if fact.uid in entry.failing:
                return
            patch = {"metadata": {"uid": fact.uid}, "spec": {"activeDeadlineSeconds": 1}}
            try:
                await self._client.patch(
                    PARTIAL_PODS, _name(entry, fact.task, fact.index), patch, entry.namespace
                )
            except (NotFound, Conflict):
                pass  # gone by itself
            entry.failing.add(fact.uid)

        await self._each(entry, step, fail_one)

    async def delete_command(self, entry: JobState, uid: str) -> None:
        command = entry.commands.get(uid)
        if command is not None:
            try:
                await self._client.delete(COMMANDS, command.metadata.name, entry.namespace, uid=uid)
            except Conflict:
                pass
        entry.observed.commands.pop(uid, None)
        entry.commands.pop(uid, None)

    async def delete_job(self, entry: JobState) -> None:
        try:
            await self._client.delete(JOBS, entry.name, entry.namespace, uid=entry.uid)
        except Conflict:
            pass

    async def _each(
        self, entry: JobState, step: KillPods | FailPods, act: Callable[[PodFact], Awaitable[None]]
    ) -> None:
        facts = (
            fact for index in step.indexes if (fact := entry.observed.pod(step.task, index, step.attempt))
        )

        async def work() -> None:
            for fact in facts:
                await act(fact)

        await _together(work for _ in range(min(len(step.indexes), AT_ONCE)))


def _name(entry: JobState, task: str, index: int) -> str:
    return f"{entry.name}-{task}-{index}"


def _pods(steps: Iterable[CreatePods], limit: int) -> Iterator[tuple[CreatePods, int]]:
    for step in steps:
        for index in step.indexes:
            if limit <= 0:
                return
            limit -= 1
            yield step, index


async def _together(works: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Run all to their end, then raise the first error: none is left behind unwatched."""
    outcomes = await asyncio.gather(*(work() for work in works), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
