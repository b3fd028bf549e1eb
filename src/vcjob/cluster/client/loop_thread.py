"""An event loop on a separate thread, for programs without one and for notebooks, whose own loop is busy.

The SDK's cluster connection uses it for every request. It knows nothing about Kubernetes.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for other threads. `at_end` is awaited before the loop is closed at the program's exit.

    A connection of the SDK owns one, and all its requests run there. Results and exceptions reach the caller
    unchanged.
    """

    def __init__(self, at_end: Callable[[], Awaitable[None]] | None = None) -> None:
        self._loop = asyncio.new_event_loop()
        self._at_end = at_end
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vcjob-cluster", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it and return its result. Ctrl-C in the caller cancels it."""
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def call_async(self, work: Coroutine[Any, Any, T]) -> T:
        """The same for a caller that has an event loop."""
        return await asyncio.wrap_future(self.start(work))

    def start(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        atexit.unregister(self.close)
        if self._loop.is_closed() or os.getpid() != self._pid:
            return  # a forked child has no such thread
        try:
            self.start(self._end()).result(timeout=5.0)
        except (TimeoutError, concurrent.futures.CancelledError):
            return  # a daemon thread: it ends with the program
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5.0)
        if not self._thread.is_alive():
            self._loop.close()

    async def _end(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._at_end is not None:
            await self._at_end()
