"""Makes a Job ready to run: admission, the choice of a gang, and the plan, once per generation.

Called by the reconciler at the beginning of each reconcile. An invalid Job gets its status here; API errors of that write
are raised.
"""

from __future__ import annotations

import logging

import msgspec

from vcjob.cluster.controller.admission import Rejected, admit_job, ended_job, is_large, job_before
from vcjob.cluster.controller.cache.informers import Caches
from vcjob.cluster.controller.cache.job_state import JobState, Outdated
from vcjob.cluster.controller.event_recorder import EventRecorder
from vcjob.cluster.controller.offload import Offload
from vcjob.cluster.controller.options import ControllerOptions
from vcjob.cluster.controller.pending import edition_of
from vcjob.cluster.controller.schedulers import Schedulers
from vcjob.cluster.controller.status.writer import StatusWriter
from vcjob.lifecycle.decision_context import MESSAGE_BYTES
from vcjob.lifecycle.descriptions import shorten
from vcjob.lifecycle.status import Status
from vcjob.plan.gang import GANGS, GangName
from vcjob.plan.names import pod_group_name
from vcjob.plan.plan import Plan
from vcjob.spec.job import Job
from vcjob.wellknown import reasons
from vcjob.wellknown.annotations import EDITION_KEY, GANG

log = logging.getLogger(__name__)
_CANNOT_CONTINUE = (
    "the Job was started by Volcano or another version of vcjob, and this version cannot continue it; its pods are left "
    "alone: run it with the controller that started it, or delete the Job and create one without these problems"
)
_PAUSED = "the Job is paused; its pods are left alone until the change is undone, or delete the Job and create it again"


class JobPreparer:
    """Fills `JobState.job`, `plan` and `chosen_gang`.

    The reconciler calls it first in every reconcile; it only works when the Job has changed. An invalid Job is
    rejected in its status.
    """

    def __init__(
        self,
        status_writer: StatusWriter,
        *,
        schedulers: Schedulers,
        events: EventRecorder,
        options: ControllerOptions,
        caches: Caches,
        offload: Offload,
    ) -> None:
        self._status_writer = status_writer
        self._schedulers = schedulers
        self._events = events
        self._options = options
        self._caches = caches
        self._offload = offload
        self._reported_scheduler = ""

    async def prepare(self, state: JobState, status: Status, now: float) -> bool:
        """Make the Job and its plan available. A Job that has ended and never ran here gets no plan: nothing is created for
        it. False: there is nothing to do."""
        assert state.resource is not None
        generation = state.resource.metadata.generation
        if status.never_ran_here:
            if state.job is None or state.admitted_generation != generation:
                state.job, state.plan = ended_job(state.document()), None
                state.admitted_generation = generation
            return True
        if state.plan is None or state.admitted_generation != generation:
            known = state.job if state.plan is not None else None
            examined = state.admitted_generation == generation != state.plan_generation
            if examined and status.state.reason in (reasons.INVALID_JOB, reasons.INVALID_UPDATE):
                return False  # it was rejected, and only its pods have changed
            document = state.document()
            if known is None and state.before_change is not None:
                known = await self._offload.run(True, job_before, state.document(state.before_change))
            large = is_large(document, len(state.resource.spec))
            try:
                job = await self._offload.run(large, admit_job, document, known, status)
            except Rejected as rejected:
                if status.shape and (known is not None or status.over):
                    self._events.emit(state, "Warning", reasons.INVALID_UPDATE, rejected.message)
                else:
                    await self._reject(state, status, rejected.message, now)
                state.admitted_generation = generation
                if known is not None and state.plan is None:
                    state.job, state.plan = known, self._plan(state, status, known)
                return known is not None  # it continues as it was before the change
            if state.resource is None or state.resource.metadata.generation != generation:
                raise Outdated  # changed or deleted meanwhile
            gang = self._gang(state, status, job)
            state.job, state.chosen_gang, state.admitted_generation = job, gang, generation
            state.plan_generation, state.before_change = generation, None
            state.plan = self._plan(state, status, job)
        if GANG not in status.resources:
            # Written with the first decision.
            started_with = {
                GANG: state.chosen_gang,
                EDITION_KEY: str(edition_of(status, started=state.has_status)),
            }
            state.status = msgspec.structs.replace(status, resources={**status.resources, **started_with})
        return True

    def _plan(self, state: JobState, status: Status, job: Job) -> Plan:
        return Plan(
            job,
            gang=state.chosen_gang,
            scheduler=self._options.scheduler,
            priorities=self._caches.priorities(),
            edition=edition_of(status, started=state.has_status),
        )

    async def _reject(self, state: JobState, status: Status, message: str, now: float) -> None:
        """Say in the status why the Job does not run. One that was started keeps its phase: its pods must not lose their
        Job because of a change, or because it was started under other rules."""
        if status.shape:
            reason = reasons.INVALID_UPDATE
            await self._show(state, status, reason, f"{message}: {_PAUSED}")
        elif state.has_status or state.observed.live:
            reason, message = reasons.INVALID_JOB, f"{_CANNOT_CONTINUE}: {message}"
            await self._show(state, status, reason, message)
        else:
            await self._status_writer.reject(state, status, message, now)
            self._events.emit(state, "Warning", reasons.INVALID_JOB, message)
            raise Outdated  # its TTL and its Commands are decided with the status that it has now
        self._events.emit(state, "Warning", reason, shorten(message, MESSAGE_BYTES))

    async def _show(self, state: JobState, status: Status, reason: str, message: str) -> None:
        shown = msgspec.structs.replace(status.state, reason=reason, message=shorten(message, MESSAGE_BYTES))
        await self._status_writer.write(state, msgspec.structs.replace(status, state=shown))

    def _gang(self, state: JobState, status: Status, job: Job) -> GangName:
        """The gang that the Job was started with, or the one that fits the cluster as it is now."""
        kept = status.resources.get(GANG)
        group = state.objects.group
        if kept is None and group is not None:  # created, and not in the status yet
            kept = "volcano" if group.metadata.name == pod_group_name(job) else "coscheduling"
        for gang in GANGS:
            if gang == kept:
                return gang
        gang = self._schedulers.choose(job)
        replaced = self._schedulers.replaced(job, gang)
        if replaced and replaced != self._reported_scheduler:
            # The same for every Job of the cluster: one event on the first of them is enough.
            self._reported_scheduler = replaced
            log.info("%s", replaced)
            self._events.emit(state, "Normal", reasons.SCHEDULER_REPLACED, replaced)
        return gang
