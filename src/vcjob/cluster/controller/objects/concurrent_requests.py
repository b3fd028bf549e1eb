"""Several requests of one Job at the same time. None outlives the reconcile that made it, because the Job's next
reconcile must not run at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


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
