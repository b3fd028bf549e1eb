"""The whole log of a job as text, sent as it is read. Used by the route of the download.

The first lines are read before the response begins, so a log that cannot be read is an error with its reason. A log that
breaks off later breaks the connection: the browser then reports a failed download, never a complete one. Logs of
single ranks that cannot be read are named in the last lines.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterator

from aiohttp import web

from vcjob.errors import VcjobError
from vcjob.report.logs import Chunk, LogFilter
from vcjob.sdk.handle import Handle

log = logging.getLogger(__name__)
#: Each piece costs a change of thread and a write. While a cluster sends little, what there is is sent after this time.
PIECE, PATIENCE = 64 * 1024, 1.0
#: Runs a function that blocks in a thread.
Call = Callable[[Callable[[], bytes | None]], Awaitable[bytes | None]]


async def send_log(request: web.Request, job: Handle, chosen: LogFilter, call: Call) -> web.StreamResponse:
    """Answer the request with the log. Raises what the first read raises; ConnectionError for what comes later."""
    pieces = _pieces(job, chosen)
    piece = await call(lambda: next(pieces, None))
    response = web.StreamResponse(
        headers={
            "Content-Type": "text/plain; charset=utf-8",
            "Content-Disposition": f'attachment; filename="{job.name}.log"',
        }
    )
    await response.prepare(request)
    try:
        while piece is not None:
            await response.write(piece)
            piece = await call(lambda: next(pieces, None))
    except VcjobError as error:
        log.warning("the download of %s ended early: %s", job.name, error.message)
        raise _broken_off(request) from error
    except ConnectionError:
        raise
    except Exception as error:
        log.exception("the download of %s failed", job.name)
        raise _broken_off(request) from error
    return response


def _pieces(job: Handle, chosen: LogFilter) -> Iterator[bytes]:
    """The text in pieces of PIECE or a little more; less where the rest is waited for."""
    notes: list[str] = []
    piece = bytearray()
    due = 0.0
    for step in job.log_chunks(chosen, follow=False, on_note=notes.append):
        waits = isinstance(step, float)
        if isinstance(step, float):
            time.sleep(step)
        else:
            for chunk in step:
                piece += _text(chunk)
        if len(piece) >= PIECE or (waits and piece and time.monotonic() >= due):
            yield bytes(piece)
            piece.clear()
            due = time.monotonic() + PATIENCE
    piece += "".join(f"vcjob: {note}\n" for note in notes).encode(errors="replace")
    yield bytes(piece)


def _text(chunk: Chunk) -> bytes:
    prefix = f"{chunk.origin.prefix} ".encode()
    return b"".join(prefix + line + b"\n" for line in chunk.data.split(b"\n")[:-1])


def _broken_off(request: web.Request) -> ConnectionError:
    """Close the connection without the end of the response, which alone would make it look complete."""
    if request.transport is not None:
        request.transport.abort()
    return ConnectionResetError("the rest of the log cannot be read")
