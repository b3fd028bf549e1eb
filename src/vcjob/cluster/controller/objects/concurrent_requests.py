"""Sends several requests of one Job concurrently, and bounds their number in one reconcile.

Used by the modules of the controller that send requests. All requests end before the reconcile that sent them, also when one fails,
because the requests of the Job's next reconcile must not overlap with them. The first error is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")
#: Concurrent requests of one Job; the client's window bounds those of all Jobs together.
CONCURRENT_REQUESTS = 128
#: Pods that are deleted or failed in one reconcile: after that the worker serves another Job first. Creations have an
#: option of their own.
CHUNK = 500


async def gather_all(requests: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all to their end, then return their results or raise the first error."""
    requests = list(requests)
    if len(requests) == 1:
        return [await requests[0]]  # needs no asyncio task of its own
    results = await asyncio.gather(*requests, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


async def for_each(items: Iterable[T], act: Callable[[T], Awaitable[object]], limit: int) -> int:
    """Call `act` for up to `limit` items. Returns their number; if it is `limit`, there may be more items."""
    chosen = list(islice(items, limit))
    left = iter(chosen)  # one iterator: the workers below share it

    async def work() -> None:
        for item in left:
            await act(item)

    await gather_all(work() for _ in range(min(len(chosen), CONCURRENT_REQUESTS)))
    return len(chosen)
