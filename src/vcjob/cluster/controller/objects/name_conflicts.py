"""What to report when the name of a Job's pod or object is already in use.

`pod_control` and `owned_objects` ask it about the existing object. It decides by the controller reference alone, so
an object of another owner is never touched, and sends no request.
"""

from __future__ import annotations

from vcjob.cluster.controller.cache.job_state import JobState
from vcjob.cluster.resources import controller_of
from vcjob.kube.api.objects import OwnerReference
from vcjob.lifecycle.observed import Blocked
from vcjob.wellknown import reasons


def is_owned(owners: tuple[OwnerReference, ...], state: JobState) -> bool:
    owner = controller_of(owners)
    return owner is not None and owner.uid == state.uid


def name_conflict(owners: tuple[OwnerReference, ...], state: JobState, what: str) -> Blocked:
    """`what` exists and is not this Job's: it belongs to a deleted Job of the same name, or to somebody else."""
    owner = controller_of(owners)
    if owner is not None and owner.name == state.name:
        return Blocked(
            reasons.PREVIOUS_JOB_TERMINATING, f"{what} of the previous Job of this name still exists"
        )
    return Blocked(
        reasons.NAME_CONFLICT,
        f"{what} exists and does not belong to this Job, so it is left unchanged; rename or delete it",
    )
