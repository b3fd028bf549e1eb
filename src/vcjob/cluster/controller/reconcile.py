"""One look at one Job: observe, decide, write the status, do the steps. Everything else waits for the next look."""

from __future__ import annotations

import logging
import time

import msgspec

from vcjob.cluster.controller.admission import Refused, admitted
from vcjob.cluster.controller.cache.informers import Caches
from vcjob.cluster.controller.cache.job_cache import JobCache
from vcjob.cluster.controller.cache.job_state import HALF_DELETED_SECONDS, JobKey, JobState
from vcjob.cluster.controller.event_recorder import EventWriter
from vcjob.cluster.controller.objects.owned_objects import Objects
from vcjob.cluster.controller.objects.pod_control import PodControl
from vcjob.cluster.controller.options import ControllerOptions
from vcjob.cluster.controller.orphans import Orphans
from vcjob.cluster.controller.pod_events import fetch_start_failure
from vcjob.cluster.controller.schedulers import Schedulers, gate
from vcjob.cluster.controller.status.patch import REFUSED, Outdated, failed_status, write_status
from vcjob.cluster.controller.status.writer import StatusWriter
from vcjob.cluster.controller.telemetry import Telemetry
from vcjob.kube.api.client import Client
from vcjob.kube.controller.queue import WorkQueue
from vcjob.lifecycle.decide import decide
from vcjob.lifecycle.decision import Decision
from vcjob.lifecycle.decision_context import ACTIVE
from vcjob.lifecycle.observed import Blocked
from vcjob.lifecycle.recover import pass_over, presumed, recover
from vcjob.lifecycle.status import FINAL, Phase, Status
from vcjob.lifecycle.step import CreatePods, DeleteCommand, DeleteJob, EmitEvent, FailPods, KillPods
from vcjob.plan.edition import EDITION, KNOWN
from vcjob.plan.gang import GANGS, GangName
from vcjob.plan.names import pod_group_name
from vcjob.plan.names import queue as queue_of
from vcjob.plan.plan import Plan
from vcjob.spec.job import Job
from vcjob.wellknown import reasons

log = logging.getLogger(__name__)
#: In status.controlledResources: the gang and the edition that the Job was started with.
GANG, EDITION_KEY = "vcjob.io/gang", "vcjob.io/edition"
#: What is refused (a quota, a name that is taken) is tried again after this, doubled each time.
_FIRST_RETRY, _MOST_RETRY = 0.5, 15.0
#: How long the cache may need to show what we made before somebody looks again.
_CATCH_UP = 1.0
_ENDED = FINAL | {Phase.ABORTED}


class Reconciler:
    def __init__(
        self,
        client: Client,
        board: JobCache,
        queue: WorkQueue[JobKey],
        *,
        schedulers: Schedulers,
        events: EventWriter,
        options: ControllerOptions,
        telemetry: Telemetry,
        caches: Caches,
    ) -> None:
        self._client = client
        self._board = board
        self._queue = queue
        self._schedulers = schedulers
        self._events = events
        self._options = options
        self._telemetry = telemetry
        self._caches = caches
        self._scribe = StatusWriter(client, board, queue, telemetry, options.status_delay)
        self._objects = Objects(client, board)
        self._executor = PodControl(client, board, events)
        self._leftovers = Orphans(
            client, board, queue, executor=self._executor, objects=self._objects, caches=caches
        )

    async def write_what_waits(self) -> None:
        await self._scribe.write_what_waits()

    async def reconcile(self, key: JobKey) -> None:
        entry = self._board.get(key)
        if entry is None:
            return
        if entry.half_deleted:
            await self._executor.finish_deletions(entry)
            if entry.half_deleted:
                self._queue.add_after(key, HALF_DELETED_SECONDS)
        if entry.lean is None:
            if entry.deleted:
                entry.deleted = False
                await self._executor.clear(entry, self._caches.pods.of(entry.namespace))
            await self._leftovers.see_to(entry)
            return
        if entry.lean.metadata.deletion_timestamp:
            return  # what it owns goes with it
        if entry.at_rest:
            return
        try:
            await self._look(entry)
        except Outdated:
            self._queue.add(key)

    async def _look(self, entry: JobState) -> None:
        now = self._client.now()
        status = entry.status
        if status is None:
            status = entry.status = entry.saved = self._read_status(entry)
            entry.recovered = entry.recovered and entry.begun  # else what is not written is forgotten, too
        if not await self._prepare(entry, status, now):
            return
        assert entry.job is not None and entry.status is not None
        if not entry.recovered:
            known = presumed(entry.status, entry.job) if entry.has_marks and not entry.begun else entry.status
            entry.status = recover(known, entry.observed)
        self._drop_ghosts(entry)
        doubts = await self._settle_doubts(entry)
        if entry.status.phase is Phase.PENDING:
            await self._ask_why_slow(entry, now)
        self._say_why_pending(entry, now)
        decision = decide(entry.job, entry.status, entry.observed, now)
        departed = list(entry.departed)
        await self._scribe.settle(entry, decision)
        entry.recovered = True
        entry.doubtful -= doubts
        if decision.wake_at is not None:
            self._queue.add_after(entry.key, max(0.001, decision.wake_at - now))
        if entry.forget(departed):
            self._queue.add(entry.key)  # what their places are to be filled with is decided without them
        await self._carry_out(entry, decision)

    def _read_status(self, entry: JobState) -> Status:
        document = entry.status_document()
        try:
            return Status.from_kube(document)
        except (ValueError, TypeError, KeyError) as error:
            # Somebody wrote into it. What the pods show brings most of it back.
            self._events.tell(
                entry, "Warning", reasons.STATUS_UNREADABLE, f"the status is read anew: {error}"
            )
            kept = {"state": {"phase": "Pending"}, "version": document.get("version")}
            return Status.from_kube(kept)

    # What is to be run

    async def _prepare(self, entry: JobState, status: Status, now: float) -> bool:
        """Have the Job and its plan at hand. False: there is nothing to run."""
        assert entry.lean is not None
        generation = entry.lean.metadata.generation
        if entry.job is None or entry.admitted_generation != generation:
            if status.over and status.shape == REFUSED:
                return False
            try:
                job = admitted(entry, status)
            except Refused as refused:
                await self._refuse(entry, status, refused.message, now)
                entry.admitted_generation = generation
                return entry.job is not None  # it goes on as it was before the change
            gang = self._gang(entry, status, job)
            entry.job, entry.chosen_gang, entry.admitted_generation = job, gang, generation
            entry.plan = Plan(
                job, gang=gang, scheduler=self._options.scheduler, priorities=self._caches.priorities()
            )
        if GANG not in status.resources:
            # Written with the first decision.
            started_with = {GANG: entry.chosen_gang, EDITION_KEY: str(EDITION)}
            entry.status = msgspec.structs.replace(status, resources={**status.resources, **started_with})
        return True

    async def _refuse(self, entry: JobState, status: Status, message: str, now: float) -> None:
        if status.shape:
            self._events.tell(entry, "Warning", reasons.INVALID_UPDATE, message)
            return
        await write_status(self._client, entry, failed_status(status, reasons.INVALID_JOB, message, now))
        self._events.tell(entry, "Warning", reasons.INVALID_JOB, message)
        self._telemetry.phase_changed(Phase.FAILED)

    def _gang(self, entry: JobState, status: Status, job: Job) -> GangName:
        """The gang that the Job was started with, or the one that suits the cluster as it is now."""
        kept = status.resources.get(GANG)
        if kept is None and entry.group is not None:  # made, and not written down yet
            kept = "volcano" if entry.group.metadata.name == pod_group_name(job) else "coscheduling"
        for gang in GANGS:
            if gang == kept:
                return gang
        gang = self._schedulers.choose(job)
        replaced = self._schedulers.replaced(job, gang)
        if replaced:
            self._events.tell(entry, "Normal", reasons.SCHEDULER_REPLACED, replaced)
        return gang

    # What is seen

    def _drop_ghosts(self, entry: JobState) -> None:
        """Pods that we made, that the cache should show by now and does not: made and gone unseen."""
        cache = self._caches.pods.of(entry.namespace)
        if not entry.unseen or cache is None:
            return
        if cache.resource_version < entry.unseen_version:
            self._queue.add_after(entry.key, _CATCH_UP)
            return
        for uid, name in entry.unseen.items():
            pod = cache.get(name, entry.namespace)
            if pod is None or pod.metadata.uid != uid:
                entry.departed.append(uid)
        entry.unseen.clear()

    async def _settle_doubts(self, entry: JobState) -> set[tuple[str, int, int]]:
        """See whether pods are there whose making was not heard of; where not, the next attempt is made."""
        doubts = set(entry.doubtful)
        for task, index, attempt in doubts:
            known = entry.observed.pod(task, index, attempt)
            if known is None and not await self._executor.look_for(entry, task, index):
                assert entry.status is not None
                entry.status = pass_over(entry.status, task, index, attempt)
        return doubts

    async def _ask_why_slow(self, entry: JobState, now: float) -> None:
        again = await fetch_start_failure(self._client, entry, now)
        if again is not None:
            self._queue.add_after(entry.key, again)

    def _say_why_pending(self, entry: JobState, now: float) -> None:
        observed = entry.observed
        cause, wake_at = entry.causes.worst(now)
        if cause is not None and entry.start_words and entry.start_words[0] == entry.causes.slow_starter(now):
            words = entry.start_words[1]
            cause = Blocked(words.reason, f"{cause.message}; {words.message}")
        observed.blocked = entry.refusal or cause
        if wake_at is not None:
            self._queue.add_after(entry.key, max(0.1, wake_at - now))
        observed.held = _of_unknown_edition(entry) or entry.conflict or self._gate(entry)
        group = entry.group.status if entry.group else None
        observed.gang_broken = group is not None and group.phase == "Unknown"

    def _gate(self, entry: JobState) -> Blocked | None:
        group = entry.group
        if entry.chosen_gang != "volcano" or group is None:
            return None  # not made yet: it is looked at once it is
        assert entry.job is not None
        status = group.status
        said = [c.message for c in (status.conditions if status else None) or () if c.message]
        return gate(
            entry.chosen_gang, status.phase if status else "", queue_of(entry.job), said[-1] if said else ""
        )

    # What is done

    async def _carry_out(self, entry: JobState, decision: Decision) -> None:
        steps = decision.steps
        for step in steps:
            match step:
                case EmitEvent():
                    self._events.tell(entry, step.type, step.reason, step.message)
                case DeleteCommand():
                    await self._executor.delete_command(entry, step.uid)
                case KillPods():
                    await self._executor.kill(entry, step)
                case FailPods():
                    await self._executor.fail(entry, step)
                case DeleteJob():
                    await self._executor.delete_job(entry)
                    return
                case _:
                    pass  # creations come below; the PodGroup follows from the ready tasks
        phase = decision.status.phase
        if phase in ACTIVE:
            await self._build(entry, decision)
        elif phase in _ENDED:
            await self._objects.drop_group(entry)
            if not any(isinstance(step, KillPods) for step in steps) and decision.wake_at is None:
                entry.release()

    async def _build(self, entry: JobState, decision: Decision) -> None:
        """Objects, then pods."""
        unknown = _of_unknown_edition(entry)
        if unknown is not None:
            self._events.tell(entry, "Warning", unknown.reason, unknown.message)
            return
        if entry.retry_at > time.monotonic():
            self._queue.add_after(entry.key, entry.retry_at - time.monotonic())
            return
        was_blocked = entry.conflict or entry.refusal
        conflict = await self._objects.ensure(entry, decision.ready_tasks)
        creations = [step for step in decision.steps if isinstance(step, CreatePods)]
        if conflict is None and creations:
            held = self._gate(entry)
            if held is not None:
                if entry.observed.held != held:
                    self._queue.add_after(entry.key, self._options.status_delay)  # to show the reason
                return
        wanted = sum(len(step.indexes) for step in creations)
        refused = None
        if conflict is None and wanted:
            if not (entry.begun or entry.has_marks):
                # Whoever takes over must know that there may be pods, and nothing else would say so.
                await self._scribe.write(entry, decision.status)
            # After a refusal one pod shows whether it still holds.
            limit = 1 if entry.refusal else self._options.creation_chunk
            made, refused = await self._executor.create(entry, creations, limit)
            if refused is None and made < wanted:
                self._queue.add(entry.key)
            elif refused is None:
                # What comes next the pods will say; till then only the counters are behind.
                self._queue.add_after(entry.key, self._options.status_delay)
                self._telemetry.all_pods(entry.lean)
                if entry.plan is not None:
                    entry.plan.forget_pods()
        self._take_refusal(entry, refused, conflict)
        if (entry.conflict or entry.refusal) != was_blocked:
            self._queue.add(entry.key)

    def _take_refusal(self, entry: JobState, refused: Blocked | None, conflict: Blocked | None) -> None:
        entry.refusal = refused
        if refused is None and conflict is None:
            entry.retry_at, entry.refusals = 0.0, 0
            return
        delay = min(_MOST_RETRY, _FIRST_RETRY * 2 ** min(entry.refusals, 8))
        entry.refusals += 1
        entry.retry_at = time.monotonic() + delay
        self._queue.add_after(entry.key, delay)


def _of_unknown_edition(entry: JobState) -> Blocked | None:
    """A Job that a newer vcjob started is followed to its end, but nothing is made for it by other rules."""
    assert entry.status is not None
    edition = entry.status.resources.get(EDITION_KEY, str(EDITION))
    if edition.isdigit() and int(edition) in KNOWN:
        return None
    return Blocked(
        reasons.UNKNOWN_EDITION,
        f"the Job was started by another version of vcjob (edition {edition}), whose pods this one cannot make: "
        "bring that version back, or restart the Job under a new name",
    )
