"""The API server's refusals as reasons that stand on a Job."""

from __future__ import annotations

from vcjob.kube.errors import ApiError, BadRequest, Forbidden, Invalid, NotFound, TooLarge
from vcjob.lifecycle.observed import Blocked
from vcjob.wellknown import reasons

#: What cannot be made as it is, now; it is tried again, for a quota may be raised and a webhook mended.
REFUSALS = (BadRequest, Forbidden, Invalid, NotFound, TooLarge)

CALL_FAILED = "failed calling webhook"


def is_refusal(error: ApiError) -> bool:
    """Whether another try at once would be refused again."""
    return isinstance(error, REFUSALS) or CALL_FAILED in error.server_message


def refusal(error: ApiError, what: str) -> Blocked:
    """Why `what` was refused: a word to rely on, and the server's own words."""
    said = error.server_message or error.message
    return Blocked(_reason(error, said), f"{what} is refused: {said}")


def _reason(error: ApiError, said: str) -> str:
    if "exceeded quota" in said or "failed quota" in said:
        return reasons.QUOTA_EXCEEDED
    if "violates PodSecurity" in said:
        return reasons.POD_SECURITY
    if "admission webhook" in said:
        return reasons.REJECTED_BY_WEBHOOK
    if CALL_FAILED in said:
        return reasons.WEBHOOK_FAILED
    if any(cause.get("reason") == reasons.NAMESPACE_TERMINATING for cause in error.causes):
        return reasons.NAMESPACE_TERMINATING
    if isinstance(error, Forbidden):
        return reasons.LIMIT_RANGE if "usage per" in said else reasons.FORBIDDEN
    if isinstance(error, NotFound):
        return reasons.NOT_FOUND
    return reasons.INVALID_OBJECT
