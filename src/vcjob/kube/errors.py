"""The errors of the Kubernetes client. Everything in this package raises only these.

::

    BackendError
    └── KubeError
        ├── ConfigError            the kubeconfig or a credential program is not usable
        ├── Unreachable            no response: refused, timed out, disconnected, bad certificate
        ├── InvalidResponse        a response that does not follow the Kubernetes API
        ├── LeaseLost              this process is no longer the leader
        └── ApiError               the server refused: status, reason, server_message, details
            ├── BadRequest         400
            ├── Unauthorized       401
            ├── Forbidden          403
            ├── NotFound           404
            ├── MethodNotAllowed   405
            ├── Conflict           409  changed since it was read
            │   └── AlreadyExists  409  the name is in use
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
    """Base of all errors of this package.

    Callers that can go on without the cluster catch it; otherwise it reaches the user as a BackendError.
    """


class ConfigError(KubeError):
    """A kubeconfig, a context in it or a credential program that cannot be used.

    No request was sent. It is not retried, because only the user can correct it.
    """


class Unreachable(KubeError):
    """The API server did not respond. `may_have_applied`: a write may have taken effect nevertheless.

    Raised after the retries that were safe for the request.
    """

    def __init__(self, message: str, *, hint: str | None = None, may_have_applied: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.may_have_applied = may_have_applied


class InvalidResponse(KubeError):
    """The response is not JSON or lacks fields that every Kubernetes object has.

    The server is no Kubernetes API server, or one object in it is damaged.
    """


class LeaseLost(KubeError):
    """The lease has expired or has another holder: this process must not write any more.

    Raised before a request is sent, and at the end of a term of leadership that was lost.
    """


class Status(msgspec.Struct, rename="camel"):
    """The API server's error object."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: dict[str, Any] | None = None


class ApiError(KubeError):
    """The API server refused the request. `server_message` is its own message.

    `api_error` chooses the subclass by the status code. Raised after the retries that were safe for the request.
    """

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
        text = f"{server_message or reason or 'no reason given'} ({status})"
        request = f"{verb} {path}".strip()
        super().__init__(f"{request}: {text}" if request else text, hint=self.default_hint)
        self.status = status
        self.reason = reason
        self.server_message = server_message
        self.details = details or {}
        self.verb = verb
        self.path = path
        self.retry_after = retry_after
        self.retried = retried  # an earlier attempt of the same request may have taken effect

    @property
    def may_have_applied(self) -> bool:
        """Whether a write may have taken effect: by this attempt, or by an earlier one without a response."""
        return self.status >= 500 or self.retried

    @property
    def causes(self) -> list[dict[str, Any]]:
        """The individual causes (`field`, `reason`, `message`) of a refusal."""
        found = self.details.get("causes")
        return [cause for cause in found if isinstance(cause, dict)] if isinstance(found, list) else []


class BadRequest(ApiError):
    """400: the request is malformed, or strict validation rejects a field.

    A log that cannot be read yet is a BadRequest as well.
    """


class Unauthorized(ApiError):
    """401: the credentials are missing, wrong or expired.

    Raised after a renewed credential was refused too, where the source has one.
    """

    default_hint = "the credentials were not accepted: log in again or check `kubectl config view --minify`"


class Forbidden(ApiError):
    """403: authorization, a quota or an admission plugin rejects the request.

    The server's message tells them apart; the controller shows it as the Job's pending reason.
    """

    default_hint = "the account lacks this permission; `kubectl auth can-i --list` shows what it may do"


class NotFound(ApiError):
    """404: the object or its kind does not exist.

    Also the namespace of a write, and a starting server that does not serve the kind yet.
    """


class MethodNotAllowed(ApiError):
    pass


class Conflict(ApiError):
    """409: the object has changed since it was read.

    Raised for a write that names a version or a uid; the caller reads again and decides again.
    """


class AlreadyExists(Conflict):
    """409: an object of that name exists.

    A subclass of Conflict: catch it first. It may be the caller's own object, if an earlier response was lost.
    """


class Gone(ApiError):
    """410: the resource version is too old; list again.

    Watches handle it; a paged list raises it if the server discards it meanwhile.
    """


class TooLarge(ApiError):
    """413: the object is larger than the server accepts.

    The controller treats it as a refusal of the Job's object, as it treats Invalid.
    """


class Invalid(ApiError):
    """422: the object breaks a rule of its kind.

    `causes` has one entry for each field that is wrong.
    """


class TooManyRequests(ApiError):
    default_hint = "the API server is overloaded; try again later"


class ServerError(ApiError):
    """The server failed, or a server behind it does not respond (500 and above).

    Raised after retries, if the request may be repeated; a write may have taken effect.
    """


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
    """The Status in `body`. A plain-text response, as of a proxy, becomes the message of a Status."""
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
    """The error for a refusal; with `http_status` 0 the code comes from the Status."""
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
