"""Flow control for all requests of a transport: a congestion window of requests in flight.

A request rate would have to be guessed; a window adapts to the server. It grows by one for every window of
successful responses and halves when the server is overloaded (additive increase, multiplicative decrease, as in
TCP), so that a fast server is fully used and a slow one recovers.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Window:
    """Limits the requests in flight to what the server has handled so far. Waiters are served in order.

    The transport takes a place for every request but those that bypass it, and streams. It never fails; a waiter that
    is cancelled gives up its turn.
    """

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
        self._epoch = 0  # counts reductions, so that one burst of refusals reduces the window once

    @property
    def size(self) -> int:
        return int(self._size)

    @property
    def in_flight(self) -> int:
        return self._in_flight

    @property
    def waiting(self) -> int:
        return len(self._waiters)

    def try_acquire(self) -> int | None:
        """Take a place if one is free. Pass the returned number to `release`."""
        if self._in_flight < int(self._size) and not self._waiters:
            self._in_flight += 1
            return self._epoch
        return None

    async def acquire(self) -> int:
        """Wait for a place. Pass the returned number to `release`."""
        if (taken := self.try_acquire()) is not None:
            return taken
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():  # a place was granted at the same time: pass it on
                self._in_flight -= 1
                self._wake()
            elif waiter in self._waiters:  # `_wake` may have removed it already, because it was cancelled
                self._waiters.remove(waiter)
            raise
        return self._epoch

    def release(self, epoch: int, *, answered: bool = True, overloaded: bool = False) -> None:
        """Return the place and report how the server responded; without a response the size stays the same."""
        if overloaded:
            if epoch == self._epoch:
                self._size = max(float(self._floor), self._size / 2)
                self._epoch += 1
        elif answered and self._in_flight * 2 >= int(
            self._size
        ):  # a window that is not in use proves nothing
            self._size = min(float(self._ceiling), self._size + 1 / self._size)
        self._in_flight -= 1
        self._wake()

    def _wake(self) -> None:
        while self._waiters and self._in_flight < int(self._size):
            waiter = self._waiters.popleft()
            if not waiter.done():
                self._in_flight += 1
                waiter.set_result(None)
