"""The verbs of the Kubernetes API: get, list, create, replace, patch, apply, delete, logs.

Objects are read into the Python type of their `Resource`. Retries and flow control are the transport's; watches
are followed by `vcjob.kube.controller.watch`. Every failure is a KubeError.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, TypeVar, Unpack

import msgspec

from vcjob.kube.api.codec import Body, RawPage, decode_nested, decode_page, decoder_for, encode, query
from vcjob.kube.api.lines import lines_of
from vcjob.kube.api.objects import is_same_object
from vcjob.kube.api.options import (
    APPLY_TYPE,
    JSON,
    PARTIAL,
    PARTIAL_LIST,
    PATCH_TYPES,
    FieldValidation,
    PatchKind,
    RequestOptions,
    Selectors,
    WriteOptions,
)
from vcjob.kube.api.resources import PODS, Document, Resource, kinds_in, known
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.errors import AlreadyExists, InvalidResponse, NotFound
from vcjob.kube.http.base import Pieces
from vcjob.kube.http.transport import Request, Transport

T = TypeVar("T")
PAGE = 500
#: A program may print for hours without a line end, such as a progress bar.
LONGEST_LINE = 1 << 20


class _WithMetadata(msgspec.Struct):
    metadata: dict[str, Any]


class Client:
    """A client of one API server: `async with Client(load()) as client:`.

    The controller's process and each connection of the SDK own one, on one event loop. Requests may run concurrently;
    the transport bounds their number. Every method raises a KubeError if the request fails.
    """

    def __init__(
        self, config: ClusterConfig, *, transport: Transport | None = None, field_manager: str = "vcjob"
    ) -> None:
        self.config = config
        self.transport = transport or Transport(config)
        self.field_manager = field_manager
        self._guard: Callable[[], None] | None = None

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self.transport.close()

    @property
    def namespace(self) -> str:
        """The namespace of the kubeconfig's context."""
        return self.config.namespace

    def now(self) -> float:
        """Seconds since the epoch, by the cluster's clock if this machine's clock is far off."""
        return self.transport.clock.now()

    def guarded(self, guard: Callable[[], None]) -> Client:
        """A client with the same connections that calls `guard` right before every write is sent, also if the
        write had to wait for flow control. `guard` raises when writes are no longer allowed (the lease is lost)."""
        guarded = Client(self.config, transport=self.transport, field_manager=self.field_manager)
        guarded._guard = guard
        return guarded

    async def get(
        self,
        resource: Resource[T],
        name: str,
        namespace: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> T:
        path = resource.path(namespace, name)
        return await self._decode(resource, await self._get(path, resource.plural, **options), path)

    async def list(
        self, resource: Resource[T], namespace: str | None = None, **selectors: Unpack[Selectors]
    ) -> list[T]:
        """All objects, fetched in pages."""
        decode = decoder_for(resource.model).decode
        items: list[T] = []
        async for page in self.pages(resource, namespace, **selectors):
            try:
                items += [decode(item) for item in page.items or []]
            except msgspec.MsgspecError as error:
                raise InvalidResponse(f"a {resource.kind} in the list is invalid: {error}") from error
        return items

    async def pages(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        limit: int = PAGE,
        **selectors: Unpack[Selectors],
    ) -> AsyncGenerator[RawPage, None]:
        """The pages of a list. Raises Gone if the server discards the list before the last page."""
        path = resource.path(namespace)
        token = ""
        while True:
            search = query(
                labelSelector=selectors.get("labels"),
                fieldSelector=selectors.get("fields"),
                limit=limit,
                continue_=token,
            )
            request = Request(
                method="GET",
                target=path + search,
                path=path,
                verb="list",
                resource=resource.plural,
                accept=PARTIAL_LIST if resource.metadata_only else "",
            )
            try:
                page = await decode_nested(decode_page, await self.transport.send(request))
            except msgspec.MsgspecError as error:
                raise InvalidResponse(f"the list at {path} is invalid: {error}") from error
            yield page
            token = page.metadata.continue_
            if not token:
                return

    async def create(
        self, resource: Resource[T], body: Body, namespace: str | None = None, **options: Unpack[WriteOptions]
    ) -> T:
        """Create an object. If the response to the first attempt was lost and the second attempt finds an object
        with this name and our labels, annotations and owners, the first attempt has created it.

        With `field_validation="Strict"` the server refuses unknown fields (BadRequest)."""
        path = resource.path(namespace)
        encoded = encode(body)
        # An object that the server names would be created twice. (Text that only looks like it is not retried.)
        idempotent = b'"generateName":' not in encoded
        request = self._write("POST", "create", resource, path, encoded, idempotent=idempotent, **options)
        try:
            return await self._decode(resource, await self.transport.send(request), path)
        except AlreadyExists as error:
            metadata = msgspec.json.decode(encoded, type=_WithMetadata).metadata
            name = metadata.get("name")
            if not error.retried or not name:
                raise
            own_path = resource.path(namespace, name)
            found = await self._get(own_path, resource.plural)
            same = await decode_nested(decoder_for(_WithMetadata).decode, found)
            if not is_same_object(same.metadata, metadata):
                raise
            return await self._decode(resource, found, own_path)

    async def replace(
        self,
        resource: Resource[T],
        name: str,
        body: Body,
        namespace: str | None = None,
        **options: Unpack[WriteOptions],
    ) -> T:
        """Replace an object. With a resourceVersion in `body`, Conflict if the object has changed since."""
        path = resource.path(namespace, name)
        request = self._write("PUT", "update", resource, path, body, **options)
        return await self._decode(resource, await self.transport.send(request), path)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Body,
        namespace: str | None = None,
        *,
        kind: PatchKind = "merge",
        subresource: str | None = None,
        **options: Unpack[WriteOptions],
    ) -> T:
        """Change parts of an object."""
        path = resource.path(namespace, name, subresource)
        request = self._write(
            "PATCH",
            "patch",
            resource,
            path,
            patch,
            content_type=PATCH_TYPES[kind],
            idempotent=kind != "json",  # a JSON patch may append: applied twice, it would append twice
            **options,
        )
        return await self._decode(resource, await self.transport.send(request), path)

    async def apply(
        self,
        resource: Resource[T],
        name: str,
        body: Body,
        namespace: str | None = None,
        *,
        force: bool = False,
        dry_run: bool = False,
    ) -> T:
        """Server-side apply: create the object or change the fields we own. Conflict names another owner."""
        path = resource.path(namespace, name)
        request = self._write(
            "PATCH", "patch", resource, path, body, content_type=APPLY_TYPE, force=force, dry_run=dry_run
        )
        return await self._decode(resource, await self.transport.send(request), path)

    async def delete(
        self,
        resource: Resource[Any],
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
    ) -> bool:
        """Delete an object. False: it did not exist. `uid` protects another object of the same name (Conflict)."""
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options: Document = {"propagationPolicy": "Background"}
        if uid or resource_version:
            options["preconditions"] = {key: value for key, value in preconditions.items() if value}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        path = resource.path(namespace, name)
        request = Request(
            method="DELETE",
            target=path,
            path=path,
            verb="delete",
            resource=resource.plural,
            body=encode(options),
            content_type=JSON,
            guard=self._guard,
        )
        try:
            await self.transport.send(request)
        except NotFound as error:
            return error.retried  # an earlier attempt, whose response was lost, may have deleted it
        return True

    async def logs(
        self,
        pod: str,
        namespace: str,
        *,
        container: str | None = None,
        follow: bool = False,
        previous: bool = False,
        since_time: str | None = None,
        tail: int | None = None,
        limit_bytes: int | None = None,
        timestamps: bool = False,
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a container's log, without line ends. Of what `tail` chooses, at most the first `limit_bytes`.

        A line of LONGEST_LINE bytes or more comes in parts of that size, and a shorter part ends it."""
        path = PODS.path(namespace, pod, "log")
        search = query(
            container=container,
            follow=follow or None,
            previous=previous or None,
            sinceTime=since_time,
            tailLines=tail,
            limitBytes=limit_bytes,
            timestamps=timestamps or None,
        )
        request = Request(method="GET", target=path + search, path=path, verb="get", resource="pods/log")
        async with self.transport.stream(request) as pieces:
            async for line in lines_of(pieces, limit_bytes or LONGEST_LINE):
                yield line

    def open_watch(
        self, resource: Resource[Any], namespace: str | None, search: str, *, idle_timeout: float
    ) -> AbstractAsyncContextManager[Pieces]:
        """The pieces of one watch response; `vcjob.kube.controller.watch` parses them."""
        path = resource.path(namespace)
        request = Request(
            method="GET",
            target=path + search,
            path=path,
            verb="watch",
            resource=resource.plural,
            accept=PARTIAL if resource.metadata_only else "",
        )
        return self.transport.stream(request, idle_timeout=idle_timeout)

    async def raw(self, path: str, **options: Unpack[RequestOptions]) -> bytes:
        """GET of any path, such as /version or /readyz."""
        return await self._get(path, "", **options)

    async def version(self) -> str:
        """The server's version, such as v1.35.4."""
        return str(msgspec.json.decode(await self.raw("/version")).get("gitVersion", "unknown"))

    async def discover(self, api_version: str, kind: str) -> Resource[Document] | None:
        """The resource that serves `kind`; None: the server has no such kind."""
        found = known(api_version, kind)
        if found is not None:
            return found
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        try:
            served = kinds_in(api_version, await self.raw(root))
        except NotFound:
            return None
        return next((each for each in served if each.kind == kind), None)

    async def _get(self, path: str, plural: str, **options: Unpack[RequestOptions]) -> bytes:
        return await self.transport.send(
            Request(method="GET", target=path, path=path, verb="get", resource=plural, **options)
        )

    def _write(
        self,
        method: str,
        verb: str,
        resource: Resource[Any],
        path: str,
        body: Body,
        *,
        content_type: str = JSON,
        idempotent: bool = True,
        force: bool = False,
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
        on_warning: Callable[[str], None] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Request:
        search = query(
            fieldManager=self.field_manager,
            fieldValidation=field_validation,
            dryRun="All" if dry_run else None,
            force=force or None,
        )
        return Request(
            method=method,
            target=path + search,
            path=path,
            verb=verb,
            resource=resource.plural,
            body=encode(body),
            content_type=content_type,
            idempotent=idempotent,
            guard=self._guard,
            on_warning=on_warning,
            **options,
        )

    async def _decode(self, resource: Resource[T], body: bytes, path: str) -> T:
        try:
            return await decode_nested(decoder_for(resource.model).decode, body)
        except msgspec.MsgspecError as error:
            raise InvalidResponse(f"the {resource.kind} at {path} is invalid: {error}") from error
