"""A work queue for level-triggered controllers, with the semantics of client-go's `workqueue`.

A key that is added several times is processed once. A key that is added while it is being processed is processed
again afterwards, never by two workers at once. A key can be added with a delay; the earliest deadline counts.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from vcjob.kube.backoff import Backoff

K = TypeVar("K", bound=Hashable)
#: Some event loops fire timers slightly early; a deadline within this many seconds has passed.
_TICK = 0.002
#: So many outdated entries of the heap are tolerated in addition to as many as there are deadlines.
_OUTDATED = 64


class QueueClosed(Exception):
    """The queue was closed: there will be no more keys.

    `get` raises it; a worker then ends.
    """


class WorkQueue(Generic[K]):
    """Workers `get` a key, process it, call `done`, and `forget` its failures if it succeeded.

    The controller has one for all Jobs. It belongs to one event loop and keeps keys only, nothing about what they
    name.
    """

    def __init__(
        self, backoff: Backoff | None = None, *, on_wait: Callable[[float], None] | None = None
    ) -> None:
        self._backoff = backoff or Backoff()
        self._on_wait = on_wait  # receives, for metrics, the seconds that each key waited
        self._ready: OrderedDict[K, float] = OrderedDict()
        self._working: set[K] = set()
        self._again: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._deadlines: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = 0
        self._timer: asyncio.Handle | None = None
        #: When the timer fires. Not every event loop's timer handle can tell.
        self._timer_at = 0.0
        self._getters: OrderedDict[asyncio.Future[None], None] = OrderedDict()
        self._closed = False

    def __len__(self) -> int:
        """Number of keys that are ready and not being processed."""
        return len(self._ready)

    @property
    def delayed(self) -> int:
        """Number of keys that wait for their deadline."""
        return len(self._deadlines)

    def add(self, key: K) -> None:
        """Process `key` as soon as a worker is free."""
        if self._closed:
            return
        now = asyncio.get_running_loop().time()
        if key in self._working:
            self._again.setdefault(key, now)
        elif key not in self._ready:
            self._ready[key] = now
            self._wake_one()

    def add_after(self, key: K, seconds: float) -> None:
        """Process `key` in `seconds`, or earlier if it has an earlier deadline."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
            return
        deadline = asyncio.get_running_loop().time() + seconds
        if deadline >= self._deadlines.get(key, float("inf")):
            return
        self._deadlines[key] = deadline
        self._sequence += 1
        heapq.heappush(self._heap, (deadline, self._sequence, key))
        self._compact()
        self._arm()

    def add_rate_limited(self, key: K) -> float:
        """Process a failed `key` again after its back-off, which is returned."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = self._backoff.delay(failures)
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """The key succeeded: its next failure starts with the shortest back-off."""
        self._failures.pop(key, None)

    def drop(self, key: K) -> None:
        """The key no longer exists: discard its deadline, its failures and a pending second round."""
        self.forget(key)
        self._deadlines.pop(key, None)
        self._ready.pop(key, None)
        self._again.pop(key, None)
        self._compact()

    async def get(self) -> K:
        """The next key, which no other worker receives before `done`. Raises QueueClosed after `close`."""
        loop = asyncio.get_running_loop()
        while not self._ready:
            if self._closed:
                raise QueueClosed
            getter: asyncio.Future[None] = loop.create_future()
            self._getters[getter] = None
            try:
                await getter
            except asyncio.CancelledError:
                self._getters.pop(getter, None)
                if getter.done() and not getter.cancelled():  # woken and cancelled: wake another worker
                    self._wake_one()
                raise
        key, since = self._ready.popitem(last=False)
        self._working.add(key)
        if self._on_wait is not None:
            self._on_wait(loop.time() - since)
        return key

    def done(self, key: K) -> None:
        """The worker has finished with `key`."""
        self._working.discard(key)
        since = self._again.pop(key, None)
        if since is not None and not self._closed:
            self._ready[key] = since
            self._wake_one()

    def close(self) -> None:
        """Accept no more keys; `get` raises QueueClosed."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._heap.clear()
        self._deadlines.clear()
        self._ready.clear()
        self._again.clear()
        while self._getters:
            self._wake_one()

    def _wake_one(self) -> None:
        while self._getters:
            getter, _ = self._getters.popitem(last=False)
            if not getter.done():
                getter.set_result(None)
                return

    def _compact(self) -> None:
        """Remove outdated entries once they are the majority. A deadline may be days away: an entry of a key that
        was dropped, or that has an earlier deadline now, must not stay until then."""
        if len(self._heap) > 2 * len(self._deadlines) + _OUTDATED:
            self._heap = [entry for entry in self._heap if self._deadlines.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)

    def _arm(self) -> None:
        """Set one timer for the earliest deadline, however many keys wait."""
        if self._timer is not None:
            if self._heap and self._timer_at <= self._heap[0][0]:
                return
            self._timer.cancel()
            self._timer = None
        if self._heap:
            self._timer_at = self._heap[0][0]
            self._timer = asyncio.get_running_loop().call_at(self._timer_at, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time() + _TICK
        while self._heap and self._heap[0][0] <= now:
            deadline, _, key = heapq.heappop(self._heap)
            if self._deadlines.get(key) == deadline:  # else the key was dropped or had an earlier deadline
                del self._deadlines[key]
                self.add(key)
        self._arm()
