"""The typed options of the client's verbs, and the media types that it sends.

Callers write `**options: Unpack[WriteOptions]`, so the type checker knows every option and its type. Only
`kube.api.client` interprets them; this module holds no code that runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypedDict

PatchKind = Literal["merge", "json", "strategic"]
FieldValidation = Literal["Ignore", "Warn", "Strict"]

JSON = "application/json"
PATCH_TYPES: dict[PatchKind, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
APPLY_TYPE = "application/apply-patch+yaml"
#: Metadata alone, of one object and of a list; a server that does not support it sends complete objects.
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


class Selectors(TypedDict, total=False):
    """Which objects of a kind are meant: label and field selectors as in the API.

    The server evaluates them; a field that it cannot select by is a BadRequest.
    """

    labels: str | None
    fields: str | None


class RequestOptions(TypedDict, total=False):
    """How one request is sent; `Request` describes the fields.

    The client's verbs take them; what is left out is the transport's default.
    """

    timeout: float
    retry_seconds: float | None
    bypass_window: bool


class WriteOptions(RequestOptions, total=False):
    """How one write is sent and what the server checks.

    For create, replace, patch and apply. With `dry_run` the server checks everything and stores nothing.
    """

    dry_run: bool
    field_validation: FieldValidation | None
    on_warning: Callable[[str], None] | None
