"""A list that stays true.

`follow` yields a Snapshot (all there is) and then Batches of changes, for ever. It picks up a watch
where it broke off; where the server has forgotten that point (410) a new Snapshot comes. The first
list is streamed (WatchList) where the server can, else fetched in pages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Generic, TypeVar

import msgspec

from vcjob.kube.api.client import Client
from vcjob.kube.api.codec import decoder_for, query
from vcjob.kube.api.lines import LineSplitter
from vcjob.kube.api.objects import Key, Reader
from vcjob.kube.api.resources import Resource
from vcjob.kube.errors import (
    ApiError,
    BadAnswer,
    BadRequest,
    ConfigError,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    Unauthorized,
    Unreachable,
    api_error,
    parse_status,
)
from vcjob.kube.jitter import jittered

T = TypeVar("T")
log = logging.getLogger(__name__)
HASTY = 1.0  # a watch that ends sooner than this has not gone well
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Snapshot(msgspec.Struct, Generic[T]):
    """Everything there is; what is not in it is gone."""

    items: list[T]
    resource_version: str


class Change(msgspec.Struct, Generic[T]):
    type: str  # ADDED, MODIFIED, DELETED
    object: T


class Batch(msgspec.Struct, Generic[T]):
    """Changes in the order in which they happened; empty when only time has passed (a bookmark)."""

    changes: list[Change[T]]
    resource_version: str


class WatchSettings(msgspec.Struct, frozen=True):
    """How a watch behaves. The defaults suit a controller; tests shorten them."""

    silence: float = 130.0  # bookmarks come about every minute: two missed ones mean a dead watch
    server_seconds: float = 290.0  # the server ends each watch after this, spread by a fifth
    first_delay: float = 0.2
    most_delay: float = 10.0
    page: int = 500
    stream_first_list: bool = True
    #: Having read, it looks away for this long: in a rush events then come many at once, which takes a fraction of
    #: their time. One that comes alone comes at once.
    rest: float = 0.0


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _BookmarkMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMeta


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_bookmark = msgspec.json.Decoder(_Bookmark).decode
_PLAIN = (b'{"type":"ADDED",', b'{"type":"MODIFIED",', b'{"type":"DELETED",')
_USERS_TO_MEND = (BadRequest, Unauthorized, Forbidden, NotFound, Invalid, ConfigError)


class Follower(Generic[T]):
    """The state of one `follow`: where it stands and how often it failed."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        *,
        namespace: str | None = None,
        labels: str | None = None,
        fields: str | None = None,
        settings: WatchSettings | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._selectors = {"labelSelector": labels, "fieldSelector": fields}
        self._settings = settings or WatchSettings()
        self._on_error = on_error
        self._decode: Callable[[Any], T] = decoder_for(resource.model).decode
        self._decode_change: Callable[[bytes], Change[T]] = decoder_for(Change[resource.model]).decode  # type: ignore[name-defined]  # a type made at run time
        reader = Reader(resource.model)
        self._key_of, self._version_of = reader.key, reader.version
        self._version: str | None = None  # None: a new snapshot is needed
        self._streams_lists = self._settings.stream_first_list
        self._page_next = False  # a streamed list got stuck: fetch the next one in pages
        self._synced_once = False
        self._failures = 0
        self._heard_at = 0.0

    async def run(self) -> AsyncGenerator[Snapshot[T] | Batch[T], None]:
        loop = asyncio.get_running_loop()
        while True:
            began, asked_delay = loop.time(), 0.0
            self._heard_at = began
            try:
                async with aclosing(self._round()) as steps:
                    async for step in steps:
                        self._failures = 0
                        self._synced_once = True
                        yield step
                self._doubt_a_silent_watch(loop.time())
                if loop.time() - began > HASTY:
                    continue  # ended by the server in good order: go on from the last version at once
            except Gone:
                self._version = None
            except KubeError as error:
                if self._version is None and self._streams_lists and isinstance(error, BadRequest | Invalid):
                    self._streams_lists = False  # a server without WatchList
                    continue
                self._doubt_a_silent_watch(loop.time())
                if isinstance(error, ApiError):
                    asked_delay = error.retry_after or 0.0
                self._page_next = self._version is None and isinstance(error, Unreachable)
                self._report(error)
            await asyncio.sleep(max(asked_delay, self._next_delay()))

    def _doubt_a_silent_watch(self, now: float) -> None:
        """Not even a bookmark: our version may lie in the server's future, as after a restored backup,
        and then a watch from there stays silent for ever. Only a new list helps."""
        if now - self._heard_at > self._settings.silence * 0.9:
            self._version = None

    def _report(self, error: KubeError) -> None:
        if self._on_error is not None:
            self._on_error(error)
        elif not self._synced_once or isinstance(error, _USERS_TO_MEND):
            raise error
        log.debug("the watch of %s broke off: %s", self._resource.plural, error)

    def _next_delay(self) -> float:
        grown: float = min(
            self._settings.most_delay, self._settings.first_delay * 2 ** min(self._failures, 16)
        )
        self._failures += 1
        return jittered(grown, 0.5, 1.5)

    async def _round(self) -> AsyncGenerator[Snapshot[T] | Batch[T], None]:
        """A snapshot if one is needed, and one watch to its end."""
        if self._version is None and (self._page_next or not self._streams_lists):
            yield await self._list()
            self._page_next = False
        async with self._client.open_watch(
            self._resource, self._namespace, self._search(), silence=self._settings.silence
        ) as chunks:
            splitter = LineSplitter()
            listing: list[Change[T]] | None = [] if self._version is None else None
            async for chunk in chunks:
                lines = splitter.feed(chunk)
                changes: list[Change[T]] = []
                failure: KubeError | None = None
                for line in lines:
                    try:
                        ends_list = self._take(line, changes if listing is None else listing)
                    except KubeError as error:
                        failure = error
                        break
                    if ends_list and listing is not None:
                        yield Snapshot(self._fold(listing), self._version or "")
                        listing = None
                if lines:
                    self._heard_at = asyncio.get_running_loop().time()
                if listing is None and (changes or (lines and failure is None)):
                    yield Batch(changes, self._version or "")
                if failure is not None:  # only now: what came before it in the same chunk did happen
                    raise failure
                if self._settings.rest and listing is None:
                    await asyncio.sleep(self._settings.rest)
            if listing is not None:
                raise Unreachable(
                    f"the watch of {self._resource.plural} ended before its first list was complete"
                )

    def _fold(self, changes: list[Change[T]]) -> list[T]:
        """The first list of a stream; changes that fell into its making are already in it."""
        items: dict[Key, T] = {}
        for change in changes:
            if change.type == "DELETED":
                items.pop(self._key_of(change.object), None)
            else:
                items[self._key_of(change.object)] = change.object
        return list(items.values())

    def _take(self, line: bytes, changes: list[Change[T]]) -> bool:
        """Read one line into `changes`. True: it is the bookmark that ends the first list."""
        if line.startswith(_PLAIN):  # nearly every line: one pass, straight into the caller's type
            try:
                change = self._decode_change(line)
            except msgspec.MsgspecError:
                pass  # told apart below
            else:
                changes.append(change)
                if self._version is not None:  # the first list comes in no order of versions
                    self._version = self._version_of(change.object)
                return False
        return self._take_slowly(line, changes)

    def _take_slowly(self, line: bytes, changes: list[Change[T]]) -> bool:
        try:
            event = _decode_event(line)
            if event.type == "BOOKMARK":
                metadata = _decode_bookmark(event.object).metadata
                ends = (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"
                if ends or self._version is not None:
                    self._version = metadata.resource_version
                return ends
        except msgspec.MsgspecError as error:
            raise BadAnswer(f"the watch of {self._resource.plural} sent what is no event: {error}") from error
        if event.type == "ERROR":
            raise self._error(event.object)
        try:
            found = self._decode(event.object)
        except msgspec.MsgspecError as error:
            self._skip(event.object, error)
            return False
        changes.append(Change(event.type, found))
        if self._version is not None:
            self._version = self._version_of(found)
        return False

    def _skip(self, raw: msgspec.Raw, error: msgspec.MsgspecError) -> None:
        """One object that does not fit our type is left out and told of; the others go on."""
        try:
            metadata = msgspec.json.decode(raw, type=dict[str, Any]).get("metadata") or {}
        except msgspec.MsgspecError:
            metadata = {}
        where = f"{metadata.get('namespace', '')}/{metadata.get('name', '?')}"
        if self._version is not None and metadata.get("resourceVersion"):
            self._version = metadata["resourceVersion"]
        told = BadAnswer(f"{self._resource.kind} {where} cannot be read and is left out: {error}")
        log.warning("%s", told)
        if self._on_error is not None:
            self._on_error(told)

    def _error(self, raw: msgspec.Raw) -> KubeError:
        return api_error(0, parse_status(bytes(raw)), verb="watch", path=self._resource.path(self._namespace))

    async def _list(self) -> Snapshot[T]:
        items: list[T] = []
        version = ""
        pages = self._client.pages(
            self._resource,
            self._namespace,
            labels=self._selectors["labelSelector"],
            fields=self._selectors["fieldSelector"],
            limit=self._settings.page,
        )
        async with aclosing(pages):
            async for page in pages:
                for raw in page.items or []:
                    try:
                        items.append(self._decode(raw))
                    except msgspec.MsgspecError as error:
                        self._skip(raw, error)
                version = page.metadata.resource_version
        self._version = version
        return Snapshot(items, version)

    def _search(self) -> str:
        seconds = jittered(self._settings.server_seconds, 0.8, 1.2)
        common = {
            **self._selectors,
            "watch": True,
            "allowWatchBookmarks": True,
            "timeoutSeconds": max(1, round(seconds)),
        }
        if self._version is None:
            return query(**common, sendInitialEvents=True, resourceVersionMatch="NotOlderThan")
        return query(**common, resourceVersion=self._version)


def follow(
    client: Client, resource: Resource[T], **options: Any
) -> AsyncGenerator[Snapshot[T] | Batch[T], None]:
    """Snapshots and Batches, for ever. Options: namespace, labels, fields, settings, on_error.

    Without `on_error`, what a user must mend (no permission, no such kind, a server that cannot be
    reached at all) is raised; with it, everything is reported there and tried again.
    """
    return Follower(client, resource, **options).run()
