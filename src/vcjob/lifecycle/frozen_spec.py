"""The part of a spec that no update may change, as a digest that the status keeps.

The admission webhook rejects an update that changes it. Where the webhook is off or does not answer, such an
update reaches the controller, and after a restart nobody remembers the spec that the Job was started with. The
digest does: `decide` pauses a Job whose spec differs from it or exceeds the hard limits, until the spec is
changed back. Pure; the callers are `decide` and backends that want to report the problem themselves.
"""

from __future__ import annotations

import hashlib
import json
from weakref import WeakKeyDictionary

from vcjob.admission.limits import check_limits
from vcjob.admission.update import frozen_spec
from vcjob.lifecycle.observed import Blocked
from vcjob.lifecycle.status import Status
from vcjob.spec.job import Job
from vcjob.wellknown import reasons

#: Changes whenever the same Job would get another digest. A digest of another format is replaced, not compared.
FORMAT = "1"

_known: WeakKeyDictionary[Job, str] = WeakKeyDictionary()
_exceeded: WeakKeyDictionary[Job, str] = WeakKeyDictionary()


def spec_digest(job: Job) -> str:
    """The digest of what may not change in an admitted Job; the same for documents that mean the same.

    Computed once for each Job object, which never changes."""
    digest = _known.get(job)
    if digest is None:
        text = json.dumps(frozen_spec(job.doc), sort_keys=True, separators=(",", ":"), default=str)
        digest = _known[job] = f"{FORMAT}:{hashlib.sha256(text.encode()).hexdigest()[:32]}"
    return digest


def _limit_exceeded(job: Job) -> str:
    """The first hard limit that the Job exceeds, or nothing; computed once for each Job object."""
    exceeded = _exceeded.get(job)
    if exceeded is None:
        problem = next(iter(check_limits(job.doc)), None)
        exceeded = (
            ""
            if problem is None
            else f"{problem.path}: {problem.message}"
            if problem.path
            else problem.message
        )
        _exceeded[job] = exceeded
    return exceeded


def spec_problem(job: Job, status: Status) -> Blocked | None:
    """Why a Job that was started must not continue with the spec that it has now; None where it may."""
    exceeded = _limit_exceeded(job)
    if exceeded:
        return Blocked(
            reasons.INVALID_UPDATE,
            f"{exceeded}: the Job is paused; its pods are left alone until it is within the limit",
        )
    if status.spec_digest.startswith(f"{FORMAT}:") and status.spec_digest != spec_digest(job):
        return Blocked(
            reasons.INVALID_UPDATE,
            "the spec was changed in fields that cannot change after creation: the Job is paused; "
            "its pods are left alone until the change is undone, or delete the Job and create it again",
        )
    return None
