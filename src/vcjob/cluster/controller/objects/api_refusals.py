"""Translates refusals of the API server into pending reasons.

`pod_control`, `owned_objects` and `orphans` ask it about API errors. A refusal is an error that an immediate retry
would not change (a quota, a webhook, a missing right); the caller raises all others. It sends no request.
"""

from __future__ import annotations

from vcjob.kube.errors import ApiError, BadRequest, Forbidden, Invalid, NotFound, TooLarge
from vcjob.lifecycle.observed import Blocked
from vcjob.wellknown import reasons

#: These are retried with back-off, because a quota can be raised and a webhook repaired.
REFUSALS = (BadRequest, Forbidden, Invalid, NotFound, TooLarge)

CALL_FAILED = "failed calling webhook"
#: The API server does not know the kind of the owner yet: its REST mapper learns of a new CRD after some seconds.
_NO_MAPPING = "cannot find RESTMapping"


def is_refusal(error: ApiError) -> bool:
    """Whether an immediate retry would be refused again."""
    return isinstance(error, REFUSALS) or CALL_FAILED in error.server_message


def refusal(error: ApiError, what: str) -> Blocked:
    """Why `what` was refused: a stable reason, and the server's own message."""
    message = error.server_message or error.message
    return Blocked(_reason(error, message), f"{what} is refused: {message}")


def _reason(error: ApiError, message: str) -> str:
    if "exceeded quota" in message or "failed quota" in message:
        return reasons.QUOTA_EXCEEDED
    if "violates PodSecurity" in message:
        return reasons.POD_SECURITY
    if "admission webhook" in message:
        return reasons.REJECTED_BY_WEBHOOK
    if CALL_FAILED in message:
        return reasons.WEBHOOK_FAILED
    if _NO_MAPPING in message:
        return reasons.CRD_NOT_READY
    if any(cause.get("reason") == reasons.NAMESPACE_TERMINATING for cause in error.causes):
        return reasons.NAMESPACE_TERMINATING
    if isinstance(error, Forbidden):
        return reasons.LIMIT_RANGE if "usage per" in message else reasons.FORBIDDEN
    if isinstance(error, NotFound):
        return reasons.NOT_FOUND
    return reasons.INVALID_OBJECT
