"""One flow control for all requests: a window of requests in flight.

A rate has to be guessed; a window follows the server. It opens by one for every windowful of good
answers and halves when the server says that it is overloaded (additive increase, multiplicative
decrease), so a fast server is used fully and a slow one is left in peace.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Window:
    """Admits as many requests at once as the server has shown to bear. Waiters are served in order."""

    def __init__(self, start: int = 32, *, floor: int = 2, ceiling: int = 256) -> None:
        if not 1 <= floor <= start <= ceiling:
            raise ValueError(
                f"a window needs 1 <= floor <= start <= ceiling, not {floor}, {start}, {ceiling}"
            )
        self._size = float(start)
        self._floor = floor
        self._ceiling = ceiling
        self._in_flight = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._epoch = 0  # grows with every cut, so that one burst of refusals cuts once

    @property
    def size(self) -> int:
        return int(self._size)

    @property
    def in_flight(self) -> int:
        return self._in_flight

    @property
    def waiting(self) -> int:
        return len(self._waiters)

    def take(self) -> int | None:
        """A place, where one is free; the number that comes back belongs into `release`."""
        if self._in_flight < int(self._size) and not self._waiters:
            self._in_flight += 1
            return self._epoch
        return None

    async def acquire(self) -> int:
        """Wait for a place."""
        if (taken := self.take()) is not None:
            return taken
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():  # a place was given in the same moment: pass it on
                self._in_flight -= 1
                self._wake()
            else:
                self._waiters.remove(waiter)
            raise
        return self._epoch

    def release(self, epoch: int, *, answered: bool = True, overloaded: bool = False) -> None:
        """Give the place back and say how the server took it; no answer at all proves nothing."""
        if overloaded:
            if epoch == self._epoch:
                self._size = max(float(self._floor), self._size / 2)
                self._epoch += 1
        elif answered and self._in_flight * 2 >= int(self._size):  # nor does an idle window
            self._size = min(float(self._ceiling), self._size + 1 / self._size)
        self._in_flight -= 1
        self._wake()

    def _wake(self) -> None:
        while self._waiters and self._in_flight < int(self._size):
            waiter = self._waiters.popleft()
            if not waiter.done():
                self._in_flight += 1
                waiter.set_result(None)
