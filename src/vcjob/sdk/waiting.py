"""`vcjob.wait_all()` and `vcjob.as_completed()`: waiting for several jobs, on any backends, and their async twins.

Users call them. They use nothing of a `Handle` but its interface. WaitTimeout names the jobs that still run; a job
that was deleted raises what its handle raises.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import ExitStack

from vcjob.errors import WaitTimeout
from vcjob.sdk.handle import Handle

#: Every poll of a cluster is a request; this machine's store is only read.
_PAUSE = {"local": 0.05, "cluster": 1.0}


def as_completed(handles: Iterable[Handle], timeout: float | None = None) -> Iterator[Handle]:
    """The handles in the order in which their jobs end; WaitTimeout if some still run after `timeout` seconds."""
    pending = list(dict.fromkeys(handles))
    deadline = None if timeout is None else time.monotonic() + timeout
    with ExitStack() as watched:
        for handle in pending:
            watched.enter_context(handle.watching())
        while pending:
            ended = [handle for handle in pending if handle.done]
            yield from ended
            pending = [handle for handle in pending if handle not in ended]
            if ended or not pending:
                continue
            pause = min(_PAUSE[handle.backend] for handle in pending)
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise _timed_out(pending, timeout)
                pause = min(pause, left)
            time.sleep(pause)


def wait_all(handles: Iterable[Handle], timeout: float | None = None, *, check: bool = False) -> list[str]:
    """Wait until all jobs are over and return their phases, in the order of `handles`.

    check: raise JobFailed as soon as one has ended in another phase than Completed; the others continue.
    """
    given = list(handles)
    phases = {handle: handle.wait(check=check) for handle in as_completed(given, timeout)}
    return [phases[handle] for handle in given]


async def as_completed_async(
    handles: Iterable[Handle],
    timeout: float | None = None,  # noqa: ASYNC109 - unlike asyncio.timeout, its error names the jobs that still run
) -> AsyncIterator[Handle]:
    """As `as_completed`, for programs with an event loop."""
    import asyncio

    waiting = {asyncio.create_task(handle.wait_async()): handle for handle in dict.fromkeys(handles)}
    deadline = None if timeout is None else time.monotonic() + timeout
    try:
        while waiting:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            ended, _ = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if not ended:
                raise _timed_out(list(waiting.values()), timeout)
            for task in ended:
                task.result()
                yield waiting.pop(task)
    finally:
        for task in waiting:
            task.cancel()


async def wait_all_async(
    handles: Iterable[Handle],
    timeout: float | None = None,  # noqa: ASYNC109 - unlike asyncio.timeout, its error names the jobs that still run
    *,
    check: bool = False,
) -> list[str]:
    """As `wait_all`, for programs with an event loop."""
    given = list(handles)
    phases = {
        handle: await handle.wait_async(check=check) async for handle in as_completed_async(given, timeout)
    }
    return [phases[handle] for handle in given]


def _timed_out(pending: list[Handle], timeout: float | None) -> WaitTimeout:
    running = ", ".join(f"{handle.name!r} is {handle.phase}" for handle in pending[:5])
    more = f" (and {len(pending) - 5} more)" if len(pending) > 5 else ""
    return WaitTimeout(f"{len(pending)} of the jobs still run after {timeout:g} s: {running}{more}")
