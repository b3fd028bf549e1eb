"""Which reason a pending Job shows, from everything that can keep its pods from running.

The reconciler calls it before each decision; the lifecycle then writes the reason into the status. It raises Outdated
if the Job was deleted or its status changed meanwhile.
"""

from __future__ import annotations

from vcjob.cluster.controller.cache.job_state import JobState
from vcjob.cluster.controller.schedulers import queue_gate
from vcjob.lifecycle.descriptions import shorten
from vcjob.lifecycle.observed import Blocked
from vcjob.lifecycle.status import Status
from vcjob.plan.names import queue as queue_of
from vcjob.plugins.edition import EDITION, FIRST, KNOWN
from vcjob.wellknown import reasons
from vcjob.wellknown.annotations import EDITION_KEY

_KNOWN_EDITIONS = {str(edition): edition for edition in KNOWN}


def update_pending_reason(state: JobState, now: float) -> float | None:
    """Tell the lifecycle why pods cannot be created or do not run. When time alone may change that, if ever."""
    cause, wake_at = state.pods.causes.worst(now)
    start_failure = state.pending.start_failure
    if cause is not None and start_failure and start_failure[0] == state.pods.causes.slow_starter(now):
        found = start_failure[1]
        cause = Blocked(found.reason, f"{cause.message}; {found.message}")
    observed = state.observed
    observed.blocked = state.retry.refusal or cause
    observed.held = unknown_edition(state) or state.retry.conflict or group_gate(state)
    group = state.objects.group.status if state.objects.group else None
    observed.gang_broken = group is not None and group.phase == "Unknown"
    return wake_at


def group_gate(state: JobState) -> Blocked | None:
    """Why pods have to wait for their PodGroup."""
    group = state.objects.group
    if state.chosen_gang != "volcano" or group is None:
        return None  # not created yet: checked once it is
    job, _ = state.current()
    status = group.status
    messages = [c.message for c in (status.conditions if status else None) or () if c.message]
    return queue_gate(
        state.chosen_gang,
        status.phase if status else "",
        queue_of(job),
        messages[-1] if messages else "",
    )


def edition_of(status: Status, *, started: bool) -> int:
    """The edition of a Job's pods: the one in its status, else the first for a Job that runs already."""
    stored = status.resources.get(EDITION_KEY)
    known = _KNOWN_EDITIONS.get(stored or "")
    if known is not None:
        return known
    return FIRST if started and stored is None else EDITION


def unknown_edition(state: JobState) -> Blocked | None:
    """A Job that another version started is followed to its end, but nothing is created for it by other rules."""
    _, status = state.current()
    edition = status.resources.get(EDITION_KEY)
    if edition is None or edition in _KNOWN_EDITIONS:
        return None
    return Blocked(
        reasons.UNKNOWN_EDITION,
        f"the Job was started by another version of vcjob (edition {shorten(edition, 100)}), whose pods this version cannot "
        "create: install that version again, or restart the Job under a new name",
    )
