"""Keeps the event loop free: CPU-heavy work on large Jobs runs in a few threads.

Lease renewal, health checks, the webhook and all other Jobs share one event loop, so nothing may hold it for more than
about 50 ms. The functions that are passed here are pure, or work on data that nobody changes meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
#: A Job is large if its spec has this many bytes, or if it has this many pods, tasks, or labels and annotations. Below,
#: admission, planning and one decision take a few milliseconds each, and at most 40 for the most expensive Jobs.
LARGE_SPEC_BYTES, LARGE_PODS, LARGE_TASKS, LARGE_METADATA = 16 * 1024, 5_000, 100, 1_000
LARGE_STATUS_BYTES = 256 * 1024
#: Threads in use at once: more would only compete for the interpreter.
_THREADS = 2


class Offload:
    """Runs functions for the reconciler, in a thread where the Job is large. Errors are raised as they are."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(_THREADS)

    async def run(self, large: bool, function: Callable[..., T], *args: Any, **options: Any) -> T:
        if not large:
            return function(*args, **options)
        async with self._slots:
            return await asyncio.to_thread(function, *args, **options)
