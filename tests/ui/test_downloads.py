"""The download of a log that cannot be read, at its beginning and in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any
from unittest.mock import Mock

import aiohttp
import pytest
import pytest_asyncio

from vcjob.errors import BackendError
from vcjob.report.logs import Chunk, LogFilter, LogOrigin
from vcjob.ui import downloads
from vcjob.ui.server import serve

ORIGIN = LogOrigin(rank=0, task="w", index=0, attempt=0, container="main", main=True, restart=0)
LINE = Chunk(ORIGIN, b"one line\n", 1.0)
Read = Callable[[], Any]


@pytest_asyncio.fixture
async def download() -> AsyncIterator[Callable[[Read], Any]]:
    """Requests the log of a job whose backend yields what the given function yields."""
    job = Mock()
    job.name = "a"
    backend = Mock()
    backend.name = "cluster"
    backend.find.return_value = job
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = asyncio.ensure_future(serve(backend, on_ready=ready.set_result))
    origin, _, token = (await ready).partition("/#token=")

    async def get(steps: Callable[..., Iterator[Any]]) -> tuple[int, str]:
        job.log_chunks.side_effect = steps
        headers = {"Authorization": f"Bearer {token}"}
        url = f"{origin}/api/jobs/default/a/logs.txt"
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
            return response.status, await response.text()

    yield get
    server.cancel()
    with suppress(asyncio.CancelledError):
        await server


async def test_a_log_that_cannot_be_read_is_an_error_with_its_reason(download: Callable[..., Any]) -> None:
    def denied(*_: object, **__: object) -> Iterator[Any]:
        yield 0.01
        raise BackendError("you may not read logs", hint="request that right")

    status, text = await download(denied)
    assert status == 502
    assert text == '{"error":{"message":"you may not read logs","hint":"request that right"}}'


@pytest.mark.parametrize("error", [BackendError("the node does not respond"), ValueError("a mistake")])
async def test_a_log_that_breaks_off_is_no_complete_download(
    download: Callable[..., Any], error: Exception
) -> None:
    def broken(*_: object, **__: object) -> Iterator[Any]:
        yield [LINE] * downloads.PIECE
        raise error

    with pytest.raises(aiohttp.ClientError):
        await download(broken)


async def test_logs_of_single_ranks_that_cannot_be_read_are_named_at_the_end(
    download: Callable[..., Any],
) -> None:
    def partly(*_: object, on_note: Callable[[str], None], **__: object) -> Iterator[Any]:
        on_note("the log of rank 1 cannot be read")
        yield [LINE]

    assert await download(partly) == (200, "[0 w-0] one line\nvcjob: the log of rank 1 cannot be read\n")


def test_short_chunks_are_sent_together() -> None:
    """As a cluster's log, each line of which is a chunk."""
    job = Mock()
    job.log_chunks.return_value = iter([[LINE] for _ in range(100_000)])
    pieces = list(downloads._pieces(job, LogFilter()))
    assert b"".join(pieces) == b"[0 w-0] one line\n" * 100_000
    assert {len(piece) // downloads.PIECE for piece in pieces[:-1]} == {1}


def test_what_there_is_is_sent_while_the_rest_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "PATIENCE", 0.0)
    job = Mock()
    job.log_chunks.return_value = iter([[LINE], 0.001, [LINE], 0.001, 0.001])
    assert list(downloads._pieces(job, LogFilter())) == [b"[0 w-0] one line\n"] * 2 + [b""]
