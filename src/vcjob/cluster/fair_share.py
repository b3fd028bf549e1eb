"""What the clients of a server share fairly by address: an amount of something, and turns to work.

`http_server` bounds complete requests with it and `webhook` orders the reviews. Used on one event loop, without locks.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairShare:
    """An amount of which an address gets more only while it holds no more than is left then. The first gets at most a
    half and each further one a half of the rest, so there is always some for another; in time all hold the same."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._total = 0
        self._held: Counter[str] = Counter()

    def take(self, address: str, count: int, *, freed: int = 0) -> bool:
        """Returns False, and takes nothing, where this address has enough. What others gave back for it, `freed`, is its own."""
        if count > freed and self._held[address] + count > self._limit - self._total - count:
            return False
        self._held[address] += count
        self._total += count
        return True

    def held(self, address: str) -> int:
        return self._held[address]

    def give_back(self, address: str, count: int) -> None:
        self._total -= count
        self._held[address] -= count
        if not self._held[address]:
            del self._held[address]


class Turns:
    """A number of turns at the same time. Addresses that wait come one after the other, however many requests each has.

    The webhook's server takes one for each large review, so that one client cannot keep the others waiting.
    """

    def __init__(self, number: int) -> None:
        self._free = number
        #: Who waits, by address; the address that comes next is first.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """Wait for a turn, and have it."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(address)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, address: str) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, deque()).append(future)
        try:
            await future
        except asyncio.CancelledError:
            if not future.cancelled():  # the turn had come
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while self._waiting:
            address = next(iter(self._waiting))
            futures = self._waiting.pop(address)
            while futures and futures[0].done():
                futures.popleft()  # it gave up, and costs its address no turn
            if futures:
                futures.popleft().set_result(None)
                if futures:
                    self._waiting[address] = futures
                return
        self._free += 1
