"""What can go wrong between us and an API server.

::

    BackendError
    └── KubeError
        ├── ConfigError            the kubeconfig or a credential program is not usable
        ├── Unreachable            no answer: refused, timed out, cut off, bad certificate
        ├── BadAnswer              an answer that is not what the API promises
        ├── LeaseLost              we may no longer act as the leader
        └── ApiError               the server said no: status, reason, server_message, details
            ├── BadRequest         400
            ├── Unauthorized       401
            ├── Forbidden          403
            ├── NotFound           404
            ├── MethodNotAllowed   405
            ├── Conflict           409  changed by someone else in between
            │   └── AlreadyExists  409  the name is taken
            ├── Gone               410  the resource version or page token is too old
            ├── TooLarge           413
            ├── Invalid            422
            ├── TooManyRequests    429
            └── ServerError        5xx
"""

from __future__ import annotations

from typing import Any

import msgspec

from vcjob.errors import BackendError


class KubeError(BackendError):
    """Base of everything this package raises."""


class ConfigError(KubeError):
    """A kubeconfig, a context in it or a credential program that cannot be used."""


class Unreachable(KubeError):
    """The API server gave no answer. `maybe_done`: a write may have taken effect all the same."""

    def __init__(self, message: str, *, hint: str | None = None, maybe_done: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.maybe_done = maybe_done


class BadAnswer(KubeError):
    """The answer is no JSON or lacks what every Kubernetes object has."""


class LeaseLost(KubeError):
    """The lease has run out or is another's: nothing may be written any more."""


class Status(msgspec.Struct, rename="camel"):
    """The API server's own error object."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: dict[str, Any] | None = None


class ApiError(KubeError):
    """The API server's refusal, with its own words kept apart in `server_message`."""

    default_hint: str | None = None

    def __init__(
        self,
        status: int,
        *,
        reason: str = "",
        server_message: str = "",
        details: dict[str, Any] | None = None,
        verb: str = "",
        path: str = "",
        retry_after: float | None = None,
        retried: bool = False,
    ) -> None:
        words = server_message or reason or "no reason given"
        what = f"{verb} {path}".strip()
        super().__init__(
            f"{what}: {words} ({status})" if what else f"{words} ({status})", hint=self.default_hint
        )
        self.status = status
        self.reason = reason
        self.server_message = server_message
        self.details = details or {}
        self.verb = verb
        self.path = path
        self.retry_after = retry_after
        self.retried = retried  # an earlier try of the same request may have taken effect

    @property
    def maybe_done(self) -> bool:
        """Whether a write may have taken effect all the same: by this try, or by an earlier one unheard."""
        return self.status >= 500 or self.retried

    @property
    def causes(self) -> list[dict[str, Any]]:
        """The single findings (`field`, `reason`, `message`) of a refusal."""
        found = self.details.get("causes")
        return [cause for cause in found if isinstance(cause, dict)] if isinstance(found, list) else []


class BadRequest(ApiError):
    pass


class Unauthorized(ApiError):
    default_hint = "the credentials were not accepted: log in again or check `kubectl config view --minify`"


class Forbidden(ApiError):
    default_hint = "the account lacks this right: `kubectl auth can-i --list` shows what it may do"


class NotFound(ApiError):
    pass


class MethodNotAllowed(ApiError):
    pass


class Conflict(ApiError):
    pass


class AlreadyExists(Conflict):
    pass


class Gone(ApiError):
    pass


class TooLarge(ApiError):
    pass


class Invalid(ApiError):
    pass


class TooManyRequests(ApiError):
    default_hint = "the API server is overloaded; try again in a moment"


class ServerError(ApiError):
    pass


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    422: Invalid,
    429: TooManyRequests,
}
_decode_status = msgspec.json.Decoder(Status).decode


def parse_status(body: bytes) -> Status:
    """The Status in `body`; where a proxy answered in plain text, that text as its message."""
    try:
        status = _decode_status(body)
        if status.kind == "Status":
            return status
    except msgspec.MsgspecError:
        pass
    return Status(message=body[:500].decode("utf-8", "replace").strip())


def api_error(
    http_status: int,
    status: Status,
    *,
    verb: str = "",
    path: str = "",
    retry_after: float | None = None,
    retried: bool = False,
) -> ApiError:
    """The error class for an answer; `http_status` 0 takes the code from the Status itself."""
    code = http_status or status.code or 500
    kind = _BY_STATUS.get(code, ServerError if code >= 500 else ApiError)
    if kind is Conflict and status.reason == "AlreadyExists":
        kind = AlreadyExists
    if retry_after is None and status.details:
        seconds = status.details.get("retryAfterSeconds")
        retry_after = float(seconds) if isinstance(seconds, int | float) else None
    return kind(
        code,
        reason=status.reason,
        server_message=status.message,
        details=status.details,
        verb=verb,
        path=path,
        retry_after=retry_after,
        retried=retried,
    )
