"""The part of a spec that no update may change, as a digest that the status keeps.

The admission webhook rejects an update that changes it. Where the webhook is off or does not answer, such an
update reaches the controller, and after a restart nobody remembers the spec that the Job was started with. The
digest does: `decide` pauses a Job whose spec differs from it or exceeds the hard limits, until the spec is
changed back. Pure; the callers are `decide` and backends that want to report the problem themselves.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any
from weakref import WeakKeyDictionary

from vcjob.admission.limits import check_limits
from vcjob.admission.update import frozen_spec
from vcjob.lifecycle.observed import Blocked
from vcjob.lifecycle.status import Status
from vcjob.spec.job import Job
from vcjob.wellknown import reasons

#: Changes whenever the same Job would get another digest. A digest of another format is replaced, not compared.
FORMAT = "1"

#: The digest of each Job, or the limit that it exceeds.
_known: WeakKeyDictionary[Job, tuple[str, str]] = WeakKeyDictionary()


def note_admitted(job: Job) -> None:
    """Record that the Job is within the limits, as `admit` has found, so that nobody checks them again."""
    _known[job] = _digest(job.doc), ""


def spec_digest(job: Job) -> str:
    """The digest of what may not change in an admitted Job; the same for documents that mean the same."""
    return _examined(job)[0]


def _examined(job: Job) -> tuple[str, str]:
    """The digest and nothing, or nothing and the first hard limit that the Job exceeds. Computed once for each Job object, which
    never changes."""
    found = _known.get(job)
    if found is None:
        exceeded = [
            f"{problem.path}: {problem.message}".removeprefix(": ") for problem in check_limits(job.doc)
        ]
        found = _known[job] = ("", exceeded[0]) if exceeded else (_digest(job.doc), "")
    return found


def _digest(doc: dict[str, Any]) -> str:
    text = json.dumps(frozen_spec(doc), sort_keys=True, separators=(",", ":"), default=str)
    return f"{FORMAT}:{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def spec_problem(job: Job, status: Status) -> Blocked | None:
    """Why a Job that was started must not continue with the spec that it has now; None where it may."""
    digest, exceeded = _examined(job)
    if exceeded:
        return Blocked(
            reasons.INVALID_UPDATE,
            f"{exceeded}: the Job is paused; its pods are left alone until it is within the limit",
        )
    if status.spec_digest.startswith(f"{FORMAT}:") and status.spec_digest != digest:
        return Blocked(
            reasons.INVALID_UPDATE,
            "the spec was changed in fields that cannot change after creation: the Job is paused; "
            "its pods are left alone until the change is undone, or delete the Job and create it again",
        )
    return None
