"""The verbs of the Kubernetes API."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Literal, TypeVar

import msgspec

from vcjob.kube.api.codec import Body, RawPage, decode_page, decoder_for, encode, query
from vcjob.kube.api.lines import lines_of
from vcjob.kube.api.resources import PODS, Document, Resource, from_discovery, known
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.errors import AlreadyExists, BadAnswer, NotFound
from vcjob.kube.http.transport import Call, Transport

T = TypeVar("T")
PatchKind = Literal["merge", "json", "strategic"]
Propagation = Literal["Background", "Foreground", "Orphan"]
PAGE = 500

_JSON = "application/json"
_PATCH_TYPES: dict[PatchKind, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_APPLY_TYPE = "application/apply-patch+yaml"


class _Found(msgspec.Struct):
    metadata: dict[str, Any]


class Client:
    """Speaks to one API server. `async with Client(load()) as client:`"""

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
        """The namespace that the context names."""
        return self.config.namespace

    def now(self) -> float:
        """The time of day, in seconds since the epoch; the cluster's where this machine's clock is far off."""
        return self.transport.clock.now()

    def guarded(self, guard: Callable[[], None]) -> Client:
        """The same client and connections, but `guard` is asked just before every write leaves: it raises
        once we may no longer act (the lease is lost), also for writes that stood in the queue till then."""
        twin = Client(self.config, transport=self.transport, field_manager=self.field_manager)
        twin._guard = guard
        return twin

    async def get(
        self,
        resource: Resource[T],
        name: str,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        **options: Any,
    ) -> T:
        path = resource.path(namespace, name, subresource)
        call = Call(method="GET", target=path, path=path, verb="get", resource=resource.plural, **options)
        return self._decode(resource, await self.transport.send(call), path)

    async def list_at(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
    ) -> tuple[list[T], str]:
        """Every object, and the resource version at which this was the truth."""
        decode = decoder_for(resource.model).decode
        items: list[T] = []
        version = ""
        async for page in self.pages(resource, namespace, labels=labels, fields=fields):
            try:
                items += [decode(item) for item in page.items or []]
            except msgspec.MsgspecError as error:
                raise BadAnswer(f"a {resource.kind} in the list cannot be read: {error}") from error
            version = page.metadata.resource_version
        return items, version

    async def list(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
    ) -> list[T]:
        """Every object, fetched in pages."""
        items, _ = await self.list_at(resource, namespace, labels=labels, fields=fields)
        return items

    async def pages(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        limit: int = PAGE,
    ) -> AsyncGenerator[RawPage, None]:
        """The pages of a list. Raises Gone where the server forgot the list half-way."""
        path = resource.path(namespace)
        token = ""
        while True:
            search = query(labelSelector=labels, fieldSelector=fields, limit=limit, continue_=token)
            call = Call(method="GET", target=path + search, path=path, verb="list", resource=resource.plural)
            try:
                page = decode_page(await self.transport.send(call))
            except msgspec.MsgspecError as error:
                raise BadAnswer(f"the list at {path} cannot be read: {error}") from error
            yield page
            token = page.metadata.continue_
            if not token:
                return

    async def create(
        self, resource: Resource[T], body: Body, namespace: str | None = None, **options: Any
    ) -> T:
        """Create an object. Where the answer to a first try was lost and a second finds the name taken by
        an object with our labels, annotations and owners, that first try had gone well.

        `field_validation="Strict"` has the server refuse (BadRequest) a field it does not know."""
        path = resource.path(namespace)
        call = self._write("POST", "create", resource, path, body, **options)
        # One that the server is to name would be made twice. (A text that only looks like it is not tried again.)
        assert call.body is not None
        call.idempotent = b'"generateName":' not in call.body
        try:
            return self._decode(resource, await self.transport.send(call), path)
        except AlreadyExists as error:
            metadata = msgspec.json.decode(call.body, type=_Found).metadata
            name = metadata.get("name")
            if not error.retried or not name:
                raise
            own = resource.path(namespace, name)
            found = await self.transport.send(
                Call(method="GET", target=own, path=own, verb="get", resource=resource.plural)
            )
            if not _carries(msgspec.json.decode(found, type=_Found).metadata, metadata):
                raise
            return self._decode(resource, found, own)

    async def replace(
        self,
        resource: Resource[T],
        name: str,
        body: Body,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        **options: Any,
    ) -> T:
        """Replace an object; with a resourceVersion in it only if nobody changed it in between (Conflict)."""
        path = resource.path(namespace, name, subresource)
        call = self._write("PUT", "update", resource, path, body, **options)
        return self._decode(resource, await self.transport.send(call), path)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Body,
        namespace: str | None = None,
        *,
        kind: PatchKind = "merge",
        subresource: str | None = None,
        **options: Any,
    ) -> T:
        path = resource.path(namespace, name, subresource)
        # A JSON patch may append; done twice it would append twice.
        call = self._write("PATCH", "patch", resource, path, patch, idempotent=kind != "json", **options)
        call.content_type = _PATCH_TYPES[kind]
        return self._decode(resource, await self.transport.send(call), path)

    async def apply(
        self,
        resource: Resource[T],
        name: str,
        body: Body,
        namespace: str | None = None,
        *,
        force: bool = False,
        dry_run: bool = False,
        subresource: str | None = None,
    ) -> T:
        """Server-side apply: create it, or change what we own of it. Conflict names another owner."""
        path = resource.path(namespace, name, subresource)
        call = self._write("PATCH", "patch", resource, path, body, dry_run=dry_run, force=force)
        call.content_type = _APPLY_TYPE
        return self._decode(resource, await self.transport.send(call), path)

    async def delete(
        self,
        resource: Resource[Any],
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
        propagation: Propagation = "Background",
    ) -> bool:
        """Ask for an object's end. False: there was none. `uid` guards against a namesake (Conflict)."""
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options: Document = {"propagationPolicy": propagation}
        if uid or resource_version:
            options["preconditions"] = {key: value for key, value in preconditions.items() if value}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        path = resource.path(namespace, name)
        call = self._write("DELETE", "delete", resource, path, options, manager=False)
        try:
            await self.transport.send(call)
        except NotFound as error:
            return error.retried  # an earlier try, whose answer was lost, may have been the one
        return True

    async def delete_collection(
        self,
        resource: Resource[Any],
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        propagation: Propagation = "Background",
    ) -> None:
        """Delete everything that matches; a selector is needed, so that nothing deletes all by mistake."""
        if not labels and not fields:
            raise ValueError("delete_collection needs a label or field selector")
        path = resource.path(namespace)
        call = self._write(
            "DELETE", "deletecollection", resource, path, {"propagationPolicy": propagation}, manager=False
        )
        call.target = path + query(labelSelector=labels, fieldSelector=fields)
        await self.transport.send(call)

    async def logs(
        self,
        pod: str,
        namespace: str,
        *,
        container: str | None = None,
        follow: bool = False,
        previous: bool = False,
        since_seconds: int | None = None,
        since_time: str | None = None,
        tail: int | None = None,
        timestamps: bool = False,
    ) -> AsyncGenerator[bytes, None]:
        """A container's log, line by line, without line ends."""
        path = PODS.path(namespace, pod, "log")
        search = query(
            container=container,
            follow=follow or None,
            previous=previous or None,
            sinceSeconds=since_seconds,
            sinceTime=since_time,
            tailLines=tail,
            timestamps=timestamps or None,
        )
        call = Call(method="GET", target=path + search, path=path, verb="get", resource="pods/log")
        async with self.transport.stream(call) as chunks:
            async for line in lines_of(chunks):
                yield line

    def open_watch(
        self, resource: Resource[Any], namespace: str | None, search: str, *, silence: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The chunks of one watch request; `vcjob.kube.controller.watch` makes sense of them."""
        path = resource.path(namespace)
        call = Call(method="GET", target=path + search, path=path, verb="watch", resource=resource.plural)
        return self.transport.stream(call, silence=silence)

    async def raw(self, path: str, **options: Any) -> bytes:
        """GET of any path, such as /version or /readyz."""
        return await self.transport.send(Call(method="GET", target=path, path=path, verb="get", **options))

    async def version(self) -> str:
        """The server's version, such as v1.35.4."""
        return str(msgspec.json.decode(await self.raw("/version")).get("gitVersion", "unknown"))

    async def discover(self, api_version: str, kind: str) -> Resource[Document] | None:
        """The resource that serves `kind`, or None where the server has no such kind."""
        found = known(api_version, kind)
        if found is not None:
            return found
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        try:
            return from_discovery(api_version, kind, await self.raw(root))
        except NotFound:
            return None

    def _write(
        self,
        method: str,
        verb: str,
        resource: Resource[Any],
        path: str,
        body: Body,
        *,
        dry_run: bool = False,
        force: bool = False,
        manager: bool = True,
        field_validation: str | None = None,
        **options: Any,
    ) -> Call:
        search = query(
            fieldManager=self.field_manager if manager else None,
            fieldValidation=field_validation,
            dryRun="All" if dry_run else None,
            force=force or None,
        )
        return Call(
            method=method,
            target=path + search,
            path=path,
            verb=verb,
            resource=resource.plural,
            body=encode(body),
            content_type=_JSON,
            guard=self._guard,
            **options,
        )

    def _decode(self, resource: Resource[T], body: bytes, path: str) -> T:
        try:
            return decoder_for(resource.model).decode(body)
        except msgspec.MsgspecError as error:
            raise BadAnswer(f"the {resource.kind} at {path} cannot be read: {error}") from error


def _carries(found: dict[str, Any], posted: dict[str, Any]) -> bool:
    """Whether an object that stands under our name is what we posted, and not dying."""
    if found.get("deletionTimestamp"):
        return False
    owners = _owner_uids(posted.get("ownerReferences"))
    if not owners or _owner_uids(found.get("ownerReferences")) != owners:
        return False
    for part in ("labels", "annotations"):
        have, want = found.get(part) or {}, posted.get(part) or {}
        if any(have.get(key) != value for key, value in want.items()):
            return False
    return True


def _owner_uids(references: Iterable[dict[str, Any]] | None) -> set[str]:
    return {str(reference.get("uid")) for reference in references or ()}
