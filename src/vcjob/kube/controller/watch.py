"""List and watch: a `Snapshot` of all objects of a kind, then `Batch`es of changes, without end.

Informers and the client's followers use it. A watch that breaks off is resumed at the last version; if the server
no longer has that version (410), a new Snapshot follows. The first list is streamed (WatchList) if the server
supports it, else fetched in pages. Errors are retried and reported, or raised: see `follow`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Generic, TypedDict, TypeVar, Unpack

import msgspec

from vcjob.kube.api.client import Client
from vcjob.kube.api.codec import cut_nesting, decoder_for, query
from vcjob.kube.api.lines import LineSplitter
from vcjob.kube.api.objects import Key, MetadataReader
from vcjob.kube.api.resources import Resource
from vcjob.kube.backoff import Backoff, jittered
from vcjob.kube.errors import (
    ApiError,
    BadRequest,
    ConfigError,
    Forbidden,
    Gone,
    Invalid,
    InvalidResponse,
    KubeError,
    NotFound,
    Unauthorized,
    Unreachable,
    api_error,
    parse_status,
)

T = TypeVar("T")
log = logging.getLogger(__name__)
MIN_WATCH_SECONDS = 1.0  # a watch that ends sooner has failed
#: All pauses end at multiples of this on the event loop's clock, so that it wakes up once for several watches.
TICK_SECONDS = 0.03
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Snapshot(msgspec.Struct, Generic[T]):
    """All objects; those that are not in it no longer exist.

    The first step of every `follow`, and again after the server has discarded the version that was reached.
    """

    items: list[T]
    resource_version: str


class Change(msgspec.Struct, Generic[T]):
    """One event of a watch."""

    type: str  # ADDED, MODIFIED, DELETED
    object: T


class Batch(msgspec.Struct, Generic[T]):
    """Changes in the order in which they happened; empty for a bookmark.

    Everything that one read of the connection brought, so that a burst is handled at once.
    """

    changes: list[Change[T]]
    resource_version: str


class WatchSettings(msgspec.Struct, frozen=True):
    """Timing of a watch. The defaults suit a controller; tests shorten them.

    Informers take one; `read_pause` trades the delay of a change for fewer reads.
    """

    idle_timeout: float = 130.0  # bookmarks arrive about every minute: without two of them the watch is dead
    server_seconds: float = 290.0  # the server ends each watch after this, varied by a fifth
    first_delay: float = 0.2
    longest_delay: float = 10.0
    page_size: int = 500
    stream_first_list: bool = True
    #: Pause after each read for this long, and on to the next tick. In a burst many events are then read at once, at a
    #: fraction of the CPU time; an event that arrives during no pause is delivered at once.
    read_pause: float = 0.0


class WatchOptions(TypedDict, total=False):
    """Which objects are watched, and how."""

    namespace: str | None
    labels: str | None
    fields: str | None
    settings: WatchSettings | None
    on_error: Callable[[Exception], None] | None


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
_USER_ERRORS = (BadRequest, Unauthorized, Forbidden, NotFound, Invalid, ConfigError)


class Follower(Generic[T]):
    """The state of one `follow`: the version reached and the number of failures.

    An informer keeps one; everything else calls `follow`.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        **options: Unpack[WatchOptions],
    ) -> None:
        self._client = client
        self._resource = resource
        self._namespace = options.get("namespace")
        self._selectors = {"labelSelector": options.get("labels"), "fieldSelector": options.get("fields")}
        self._settings = options.get("settings") or WatchSettings()
        self._on_error = options.get("on_error")
        self._decode: Callable[[Any], T] = decoder_for(resource.model).decode
        change: Any = Change[resource.model]  # type: ignore[name-defined]  # a type made at run time
        self._decode_change: Callable[[bytes], Change[T]] = decoder_for(change).decode
        reader = MetadataReader(resource.model)
        self._key_of, self._version_of = reader.key, reader.version
        self._version: str | None = None  # None: a new snapshot is needed
        self._streams_lists = self._settings.stream_first_list
        self._page_next = False  # a streamed list failed: fetch the next one in pages
        self._synced_once = False
        self._failures = 0
        self._backoff = Backoff(self._settings.first_delay, self._settings.longest_delay, spread=0.5)
        self._received_at = 0.0

    async def run(self) -> AsyncGenerator[Snapshot[T] | Batch[T], None]:
        loop = asyncio.get_running_loop()
        while True:
            began, requested_delay = loop.time(), 0.0
            self._received_at = began
            try:
                async with aclosing(self._round()) as steps:
                    async for step in steps:
                        self._failures = 0
                        self._synced_once = True
                        yield step
                self._relist_after_silence(loop.time())
                if loop.time() - began > MIN_WATCH_SECONDS:
                    continue  # ended by the server as usual: resume at once
            except Gone:
                self._version = None
            except KubeError as error:
                if self._version is None and self._streams_lists and isinstance(error, BadRequest | Invalid):
                    self._streams_lists = False  # a server without WatchList
                    continue
                self._relist_after_silence(loop.time())
                if isinstance(error, ApiError):
                    requested_delay = error.retry_after or 0.0
                self._page_next = self._version is None and isinstance(error, Unreachable)
                self._report(error)
            await asyncio.sleep(max(requested_delay, self._next_delay()))

    def _relist_after_silence(self, now: float) -> None:
        """After a watch without even a bookmark, list again: our version may be newer than the server's, as after
        a restored backup, and a watch from such a version never receives anything."""
        if now - self._received_at > self._settings.idle_timeout * 0.9:
            self._version = None

    def _report(self, error: KubeError) -> None:
        if self._on_error is not None:
            self._on_error(error)
        elif not self._synced_once or isinstance(error, _USER_ERRORS):
            raise error
        log.debug("watch of %s failed: %s", self._resource.plural, error)

    def _next_delay(self) -> float:
        self._failures += 1
        return self._backoff.delay(self._failures - 1)

    async def _round(self) -> AsyncGenerator[Snapshot[T] | Batch[T], None]:
        """A Snapshot if one is needed, then one watch until it ends."""
        if self._version is None and (self._page_next or not self._streams_lists):
            yield await self._list()
            self._page_next = False
        async with self._client.open_watch(
            self._resource, self._namespace, self._search(), idle_timeout=self._settings.idle_timeout
        ) as received:
            splitter = LineSplitter()
            listing: list[Change[T]] | None = [] if self._version is None else None
            async for pieces in received:
                lines = splitter.feed(pieces)
                changes: list[Change[T]] = []
                failure: KubeError | None = None
                for line in lines:
                    taken = changes if listing is None else listing
                    try:
                        try:
                            ends_list = self._take(line, taken)
                        except RecursionError:
                            ends_list = self._take(await asyncio.to_thread(cut_nesting, line), taken)
                    except KubeError as error:
                        failure = error
                        break
                    if ends_list and listing is not None:
                        yield Snapshot(self._fold(listing), self._version or "")
                        listing = None
                if lines:
                    self._received_at = asyncio.get_running_loop().time()
                if listing is None and (changes or (lines and failure is None)):
                    yield Batch(changes, self._version or "")
                if failure is not None:  # only now: the events received before it did happen
                    raise failure
                if self._settings.read_pause and listing is None:
                    await asyncio.sleep(until_tick(self._settings.read_pause))
            if listing is not None:
                raise Unreachable(
                    f"the watch of {self._resource.plural} ended before its first list was complete"
                )

    def _fold(self, changes: list[Change[T]]) -> list[T]:
        """The objects of a streamed list, with the changes that happened while it was sent."""
        items: dict[Key, T] = {}
        for change in changes:
            if change.type == "DELETED":
                items.pop(self._key_of(change.object), None)
            else:
                items[self._key_of(change.object)] = change.object
        return list(items.values())

    def _take(self, line: bytes, changes: list[Change[T]]) -> bool:
        """Read one line into `changes`. True: it is the bookmark that ends the first list."""
        if line.startswith(_PLAIN):  # nearly every line: decoded in one pass into the caller's type
            try:
                change = self._decode_change(line)
            except msgspec.MsgspecError:
                pass  # the slow path finds out what it is
            else:
                changes.append(change)
                if self._version is not None:  # the first list is not ordered by version
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
            raise InvalidResponse(
                f"the watch of {self._resource.plural} sent an invalid event: {error}"
            ) from error
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

    def _skip(self, raw: msgspec.Raw, error: Exception) -> None:
        """Report an object that does not fit our type and continue without it."""
        try:
            metadata = msgspec.json.decode(raw, type=dict[str, Any]).get("metadata") or {}
        except (msgspec.MsgspecError, RecursionError):
            metadata = {}
        where = f"{metadata.get('namespace', '')}/{metadata.get('name', '?')}"
        if self._version is not None and metadata.get("resourceVersion"):
            self._version = metadata["resourceVersion"]
        skipped = InvalidResponse(f"{self._resource.kind} {where} is invalid and is ignored: {error}")
        log.warning("%s", skipped)
        if self._on_error is not None:
            self._on_error(skipped)

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
            limit=self._settings.page_size,
        )
        async with aclosing(pages):
            async for page in pages:
                for raw in page.items or []:
                    try:
                        items.append(self._decode(raw))
                    except (msgspec.MsgspecError, RecursionError) as error:
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


def until_tick(pause: float) -> float:
    """Seconds until the first tick that is at least `pause` seconds away."""
    end = asyncio.get_running_loop().time() + pause
    return pause + -end % TICK_SECONDS


def follow(
    client: Client, resource: Resource[T], **options: Unpack[WatchOptions]
) -> AsyncGenerator[Snapshot[T] | Batch[T], None]:
    """Snapshots and Batches, without end.

    Without `on_error`, errors that the user must fix (no permission, no such kind, a server that was never
    reached) are raised; with it, every error is reported there and retried.
    """
    return Follower(client, resource, **options).run()
