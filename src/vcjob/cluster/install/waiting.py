"""Waits for something in the cluster, with a time limit and with progress messages for the user.

Used by install, uninstall and the probes of an installation. It only repeats the caller's question; errors of the
question are raised at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str], None]

#: A wait that takes longer is reported, and again after every such interval.
REPORT_SECONDS = 3.0
_PAUSE = 0.2


async def wait_until(
    holds: Callable[[], Awaitable[bool]], what: str, seconds: float, progress: Progress
) -> bool:
    """Ask until it holds; False where it does not within `seconds`. `what` completes "waiting for"."""
    start = time.monotonic()
    report_at = start + REPORT_SECONDS
    while not await holds():
        now = time.monotonic()
        if now > start + seconds:
            return False
        if now >= report_at:
            progress(f"waiting for {what} ({now - start:.0f} s of at most {seconds:.0f} s)")
            report_at += REPORT_SECONDS
        await asyncio.sleep(_PAUSE)
    return True
