"""One reconcile of one Job: observe, decide, write the status, carry out the steps.

The controller's workers call `Reconciler.reconcile`, never twice at once for one Job. It raises API errors, and the
worker then puts the Job back into the queue with a back-off.
"""

from __future__ import annotations

import asyncio
import logging

from vcjob.cluster.controller.cache.decoded_jobs import DecodedJobs
from vcjob.cluster.controller.cache.informers import Caches
from vcjob.cluster.controller.cache.job_cache import JobCache
from vcjob.cluster.controller.cache.job_state import JobState, Outdated, QueueKey, status_document
from vcjob.cluster.controller.cache.pod_tracker import HALF_DELETED_SECONDS
from vcjob.cluster.controller.event_recorder import EventRecorder
from vcjob.cluster.controller.failure_logs import FailureLogs
from vcjob.cluster.controller.objects import concurrent_requests
from vcjob.cluster.controller.objects.owned_objects import OwnedObjects
from vcjob.cluster.controller.objects.pod_control import PodControl
from vcjob.cluster.controller.offload import (
    LARGE_READ_STATUS_BYTES,
    LARGE_SPEC_BYTES,
    Offload,
    occupies_worker,
)
from vcjob.cluster.controller.options import ControllerOptions
from vcjob.cluster.controller.orphans import COMMAND_GRACE_SECONDS, Orphans
from vcjob.cluster.controller.pending import (
    group_gate,
    unknown_edition,
    update_pending_reason,
)
from vcjob.cluster.controller.pod_events import fetch_start_failure
from vcjob.cluster.controller.preparation import JobPreparer
from vcjob.cluster.controller.schedulers import Schedulers
from vcjob.cluster.controller.status.writer import StatusWriter
from vcjob.cluster.controller.telemetry import Telemetry
from vcjob.cluster.resources import seconds_of
from vcjob.kube.api.client import Client
from vcjob.kube.controller.queue import WorkQueue
from vcjob.kube.errors import KubeError, LeaseLost
from vcjob.lifecycle.decide import decide
from vcjob.lifecycle.decision import Decision
from vcjob.lifecycle.decision_context import ACTIVE
from vcjob.lifecycle.observed import Blocked
from vcjob.lifecycle.recover import assume_created, recover, skip_attempt
from vcjob.lifecycle.status import FINAL, Phase, Status
from vcjob.lifecycle.status_codec import public_part
from vcjob.lifecycle.step import CreatePods, DeleteCommand, DeleteJob, EmitEvent, FailPods, KillPods
from vcjob.wellknown import reasons

log = logging.getLogger(__name__)
#: How long the informer may need to show what we created before the Job is reconciled again.
_CATCH_UP_SECONDS = 1.0
#: How soon a large Job is tried again while as many as allowed are being reconciled.
_LARGE_RETRY_SECONDS = 0.2
_ENDED = FINAL | {Phase.ABORTED}


class Reconciler:
    """Brings one Job at a time to what its spec asks for. All state is in `JobCache`.

    The controller's workers call it with keys of the queue, several at once but never for the same Job. API errors
    are raised, and the key is retried with back-off.
    """

    def __init__(
        self,
        client: Client,
        jobs: JobCache,
        queue: WorkQueue[QueueKey],
        *,
        schedulers: Schedulers,
        events: EventRecorder,
        options: ControllerOptions,
        telemetry: Telemetry,
        caches: Caches,
    ) -> None:
        self._client = client
        self._jobs = jobs
        self._queue = queue
        self._events = events
        self._options = options
        self._telemetry = telemetry
        self._caches = caches
        self._offload = Offload()
        self._started_at = client.now()
        self._large_running = 0
        self._decoded = DecodedJobs()
        self._status_writer = StatusWriter(
            client, jobs, queue, telemetry=telemetry, delay=options.status_delay, offload=self._offload
        )
        self._preparer = JobPreparer(
            self._status_writer,
            schedulers=schedulers,
            events=events,
            options=options,
            caches=caches,
            offload=self._offload,
        )
        self.failure_logs = FailureLogs(
            client, queue.add, enabled=options.failure_logs, offload=self._offload
        )
        self._objects = OwnedObjects(client, jobs, self._offload)
        self._pod_control = PodControl(client, jobs, events, self._offload)
        self._orphans = Orphans(
            client, jobs, queue, pod_control=self._pod_control, objects=self._objects, caches=caches
        )

    async def flush(self) -> None:
        """Write the batched status counters before a graceful stop."""
        await self._status_writer.flush()

    async def delete_orphaned_commands(self) -> None:
        """Delete Commands without a Job, until it is cancelled. API errors are logged and retried."""
        while True:
            await asyncio.sleep(COMMAND_GRACE_SECONDS)
            try:
                await self._orphans.delete_commands()
            except LeaseLost:
                raise
            except KubeError as error:
                log.warning("cannot delete Commands without a Job: %s", error)

    async def reconcile(self, key: QueueKey) -> None:
        state = self._jobs.get(key)
        if state is None:
            return
        if state.pods.half_deleted:
            await self._pod_control.finish_deletions(state)
            if state.pods.half_deleted:
                self._queue.add_after(key, HALF_DELETED_SECONDS)
        if state.resource is None:
            if state.deleted:
                state.deleted = False
                if not await self._pod_control.delete_all(state, self._caches.pods.of(state.namespace)):
                    state.deleted = True
                    self._queue.add(key)
                    return
            await self._orphans.reconcile(state)
            return
        if state.resource.metadata.deletion_timestamp or state.idle:
            return  # the garbage collector deletes what a deleted Job owns
        large = len(state.resource.spec) >= LARGE_SPEC_BYTES or occupies_worker(state)
        if large and not self._may_run_large(state):
            return
        self._large_running += large
        if len(state.resource.spec) >= LARGE_SPEC_BYTES:
            self._decoded.begin(state)
        try:
            now = self._client.now()
            if await self._prepare(state, now):
                if not large and occupies_worker(state):  # not known before it was admitted
                    if not self._may_run_large(state):
                        return
                    large = True
                    self._large_running += 1
                await self._reconcile_job(state, now)
        except Outdated:
            self._queue.add(key)
        finally:
            self._large_running -= large
            if state.resource is not None and len(state.resource.spec) >= LARGE_SPEC_BYTES:
                self._decoded.end(state)

    def _may_run_large(self, state: JobState) -> bool:
        """Whether a worker is left for a large Job: half of them are for ordinary Jobs. If not, it is tried again."""
        if self._large_running < max(1, self._options.workers // 2):
            return True
        self._queue.add_after(state.key, _LARGE_RETRY_SECONDS)
        return False

    async def _prepare(self, state: JobState, now: float) -> bool:
        status = state.status
        if status is None:
            status = state.status = state.saved = await self._read_status(state)
            state.recovered = state.recovered and state.has_status  # what was not written is forgotten
        return await self._preparer.prepare(state, status, now)

    async def _reconcile_job(self, state: JobState, now: float) -> None:
        job, status = state.current()
        if not state.recovered:
            unwritten_start = state.objects.show_start and not state.has_status
            known = assume_created(status, job) if unwritten_start else status
            recovered = await self._offload.run_decision(state, recover, known, state.observed)
            if state.status is not status or state.job is not job:
                raise Outdated  # the Job was changed or deleted meanwhile
            state.status = recovered
        self._resolve_unseen(state)
        uncertain = await self._resolve_uncertain(state)
        if self.failure_logs.reading(state):
            return  # reconciled again once they are read, a few seconds later at most
        if state.current()[1].phase is Phase.PENDING:
            await self._fetch_start_failure(state, now)
        state.commands.refresh()
        wake_at = update_pending_reason(state, now)
        if not state.current()[1].over:
            self._events.emit_pending_reason(state)
        if wake_at is not None:
            self._queue.add_after(state.key, max(0.1, wake_at - now))
        decision = await self.failure_logs.explain(state, await self._decide(state, now), now)
        departed = list(state.pods.departed)
        await self._status_writer.save(state, decision)
        state.recovered = True
        state.pods.uncertain -= uncertain
        if decision.wake_at is not None:
            self._queue.add_after(state.key, max(0.001, decision.wake_at - now))
        if state.pods.forget_departed(departed):
            self._queue.add(state.key)  # their replacements are decided without them
        await self._apply(state, decision)

    async def _decide(self, state: JobState, now: float) -> Decision:
        """Decide, in a thread where that may take long."""
        job, status = state.current()
        decision = await self._offload.run_decision(state, decide, job, status, state.observed, now)
        if state.status is not status or state.job is not job:
            raise Outdated  # the Job was changed or deleted meanwhile
        return decision

    async def _read_status(self, state: JobState) -> Status:
        resource = state.resource
        assert resource is not None
        large = len(resource.status) >= LARGE_READ_STATUS_BYTES
        document = await self._offload.run(large, status_document, resource)
        try:
            status = await self._offload.run(large, Status.from_kube, document)
        except (ValueError, TypeError, KeyError) as error:
            # Somebody changed it. The phase and the counters stay, and the pods restore most of the rest.
            self._events.emit(
                state,
                "Warning",
                reasons.STATUS_UNREADABLE,
                f"a part of the status cannot be read and is rebuilt from the pods: {error}",
            )
            status = await self._offload.run(large, public_part, document)
        if state.resource is not resource:
            raise Outdated  # changed or deleted while a thread read it
        return status

    # What is observed

    def _resolve_unseen(self, state: JobState) -> None:
        informer = self._caches.pods.of(state.namespace)
        if (
            state.pods.unseen
            and informer is not None
            and not state.pods.resolve_unseen(informer, state.namespace)
        ):
            self._queue.add_after(state.key, _CATCH_UP_SECONDS)

    async def _resolve_uncertain(self, state: JobState) -> set[tuple[str, int, int]]:
        """Find out whether pods exist whose creation got no answer; for those that do not, the next attempt follows."""
        uncertain = set(state.pods.uncertain)
        for task, index, attempt in uncertain:
            known = state.observed.pod(task, index, attempt)
            if known is None and not await self._pod_control.find(state, task, index):
                state.status = skip_attempt(state.current()[1], task, index, attempt)
        return uncertain

    async def _fetch_start_failure(self, state: JobState, now: float) -> None:
        again = await fetch_start_failure(self._client, state, now)
        if again is not None:
            self._queue.add_after(state.key, again)

    # What is done

    async def _apply(self, state: JobState, decision: Decision) -> None:
        """Carry out the decided steps in order."""
        steps = decision.steps
        left = concurrent_requests.CHUNK
        for step in steps:
            match step:
                case EmitEvent():
                    self._events.emit(state, step.type, step.reason, step.message)
                case DeleteCommand():
                    await self._pod_control.delete_command(state, step.uid)
                case KillPods():
                    left -= await self._pod_control.kill(state, step, left)
                case FailPods():
                    left -= await self._pod_control.fail(state, step, left)
                case DeleteJob() if left > 0:
                    await self._pod_control.delete_job(state)
                    return
                case _:
                    pass  # creations come below; the PodGroup follows from the ready tasks
        if left <= 0:
            self._queue.add(state.key)  # the rest is decided again, after the Jobs that wait
            return
        phase = decision.status.phase
        if decision.paused:
            return  # the plan is that of a spec which must not take effect
        if phase in ACTIVE:
            await self._create(state, decision)
        elif phase in _ENDED:
            await self._objects.delete_group(state)
            if not any(isinstance(step, KillPods) for step in steps) and decision.wake_at is None:
                state.release()

    async def _create(self, state: JobState, decision: Decision) -> None:
        """Create the Job's objects, then its pods."""
        unknown = unknown_edition(state)
        if unknown is not None:
            self._events.emit(state, "Warning", unknown.reason, unknown.message)
            return
        retry = state.retry
        if retry.seconds_left > 0:
            self._queue.add_after(state.key, retry.seconds_left)
            return
        was_blocked = retry.blocked
        conflict = await self._objects.ensure(state, decision.ready_tasks)
        creations = [step for step in decision.steps if isinstance(step, CreatePods)]
        if conflict is None and creations:
            held = group_gate(state)
            if held is not None:
                if state.observed.held != held:
                    self._show_later(state)
                return
        refused = await self._create_pods(state, decision, creations) if conflict is None else None
        delay = retry.record(refused, conflict)
        if delay is not None:
            self._queue.add_after(state.key, delay)
        if retry.blocked != was_blocked:
            self._queue.add(state.key)

    async def _create_pods(
        self, state: JobState, decision: Decision, creations: list[CreatePods]
    ) -> Blocked | None:
        wanted = sum(len(step.indexes) for step in creations)
        if not wanted:
            return None
        if not (state.has_status or state.objects.show_start):
            # The next leader must know that there may be pods, and nothing else would tell it.
            await self._status_writer.write(state, decision.status)
        # After a refusal one pod shows whether it still holds.
        limit = 1 if state.retry.refusal else self._options.creation_chunk
        created, refused = await self._pod_control.create(state, creations, limit)
        if refused is None and created < wanted:
            self._queue.add(state.key)
        elif refused is None:
            self._show_later(state)  # the pods will wake the Job; until then only the counters are old
            self._measure_start(state, decision)
            if state.plan is not None:
                state.plan.forget_pods()
        return refused

    def _show_later(self, state: JobState) -> None:
        """Have what has changed since the decision written with the counters: those that wait already have a deadline."""
        if state.unsaved is None or state.unsaved.only_waits:
            self._queue.add_after(state.key, self._options.status_delay)

    def _measure_start(self, state: JobState, decision: Decision) -> None:
        """Report how long the first pods took, only for Jobs that were created during this term: the age of a Job
        from before says nothing about this controller."""
        status = decision.status
        first = not (status.version or status.retry_count) and not any(
            memory.attempts.groups for memory in status.tasks.values()
        )
        text = state.resource.metadata.creation_timestamp if state.resource else None
        created = seconds_of(text) if text else 0.0
        if first and created >= self._started_at - 1 and not state.start_measured:  # whole seconds
            state.start_measured = True
            self._telemetry.all_pods(max(0.0, self._client.now() - created))
