"""Our own streams: what comes is handed out at once, and every way in which it can end badly is told."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import struct
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from functools import cache
from typing import Any, TypeAlias

import pytest

from vcjob.kube.auth import Fixed, bearer
from vcjob.kube.client import Client
from vcjob.kube.config import ClusterConfig
from vcjob.kube.errors import TooManyRequests
from vcjob.kube.kept_wire import KeptWire
from vcjob.kube.stream1 import Streaming
from vcjob.kube.tls import load_pair
from vcjob.kube.wire import READ_BUFFER, AiohttpWire, Stream, WireError

from .certificates import Authority

Handler: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


@cache
def tls() -> tuple[bytes, ssl.SSLContext]:
    """A CA, and a server of it."""
    ca, context = Authority(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(context, *ca.issue("server", hosts=["127.0.0.1"]))
    return ca.pem, context


class Beside:
    """A server that says, on each connection, what `handler` says after the request (or at once: `hasty`)."""

    def __init__(
        self,
        handler: Handler,
        *,
        secure: bool = False,
        hasty: bool = False,
        wire: type[AiohttpWire] = KeptWire,
    ) -> None:
        self._handler = handler
        self._hasty = hasty
        self._tls = tls() if secure else None
        self._kind = wire
        self.asked: list[bytes] = []
        self.open = 0  # connections
        self.ended = asyncio.Event()

    async def __aenter__(self) -> Beside:
        ca, context = self._tls or (None, None)
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self.port = self._listening.sockets[0].getsockname()[1]
        url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}"
        self.config = ClusterConfig(server=url, source=Fixed(bearer("token")), ca=ca)
        self.wire = self._kind(self.config)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.wire.close()
        self._listening.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            if not self._hasty:
                self.asked.append(await reader.readuntil(b"\r\n\r\n"))
            await self._handler(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            self.ended.set()
            writer.close()

    def stream(self, silence: float | None = 5.0) -> AbstractAsyncContextManager[Stream]:
        return open_stream(self.wire, self.config, silence)


@asynccontextmanager
async def open_stream(
    wire: AiohttpWire, config: ClusterConfig, silence: float | None = 5.0
) -> AsyncIterator[Stream]:
    credential = await config.source.get()
    async with wire.stream("/api?watch=true", credential, silence) as stream:
        yield stream


def says(*pieces: bytes, then: Handler | None = None) -> Handler:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if then is not None:
            await then(reader, writer)

    return handler


async def waits(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Until the other side has closed."""
    await reader.read()


async def resets(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    made = writer.get_extra_info("socket")
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def all_of(stream: Stream) -> bytes:
    return b"".join([part async for part in stream.chunks])


async def failure(server: Beside, silence: float | None = 5.0) -> tuple[bytes, WireError]:
    """What came before it, and the failure."""
    came = b""
    with pytest.raises(WireError) as caught:
        async with server.stream(silence) as stream:
            async for part in stream.chunks:
                came += part
    return came, caught.value


async def test_a_request_has_its_path_host_and_headers() -> None:
    async with Beside(says(HEAD + LAST)) as server, server.stream() as stream:
        assert await all_of(stream) == b""
    lines = server.asked[0].decode().split("\r\n")
    assert lines[:2] == ["GET /api?watch=true HTTP/1.1", f"Host: 127.0.0.1:{server.port}"]
    assert {"Authorization: Bearer token", "Accept: application/json", "Accept-Encoding: identity"} < set(
        lines
    )


async def test_events_come_as_they_happen(secure: bool = False) -> None:
    go_on = asyncio.Event()

    async def handler(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        for number in range(3):
            await go_on.wait()
            go_on.clear()
            writer.write(chunk(b"event %d\n" % number))
        writer.write(LAST)

    async with Beside(handler, secure=secure) as server, server.stream() as stream:
        assert (stream.status, stream.retry_after) == (200, None)
        for number in range(3):
            go_on.set()
            assert await anext(stream.chunks) == b"event %d\n" % number
        assert await all_of(stream) == b""


async def test_what_has_come_till_the_reader_comes_is_one_piece() -> None:
    events = [b"event %d\n" % number for number in range(100)]
    async with Beside(says(HEAD, *map(chunk, events), then=waits)) as server, server.stream() as stream:
        await asyncio.sleep(0.1)
        assert await anext(stream.chunks) == b"".join(events)


@pytest.mark.parametrize("cut", [1, 3, 50])
@pytest.mark.parametrize("head", ["chunks", "length", "until close"])
async def test_a_body_is_read_in_whatever_form_and_pieces_it_comes(head: str, cut: int) -> None:
    body = b"".join(b"event %d\n" % number for number in range(20))
    text = {
        "chunks": HEAD + chunk(body[:70]) + chunk(body[70:]) + LAST,
        "length": b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body,
        "until close": b"HTTP/1.1 200 OK\r\n\r\n" + body,
    }[head]
    pieces = [text[at : at + cut] for at in range(0, len(text), cut)]
    async with Beside(says(*pieces)) as server, server.stream() as stream:
        assert await all_of(stream) == body


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy",
        b"HTTP/1.1 429 Too Many\r\nretry-after: 7\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbusy\r\n0\r\n\r\n",
        b"HTTP/1.0 429 Too Many\r\nRetry-After: 7\r\n\r\nbusy",
    ],
)
async def test_a_refusal_has_its_status_and_words(head: bytes) -> None:
    async with Beside(says(head)) as server, server.stream() as stream:
        assert (stream.status, stream.retry_after) == (429, "7")
        assert await all_of(stream) == b"busy"


async def test_a_clients_stream_tells_a_refusal_by_its_words() -> None:
    body = b'{"kind":"Status","reason":"TooManyRequests","message":"too many logs"}'
    head = b"HTTP/1.1 429 No\r\nRetry-After: 7\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with Beside(says(head + body)) as server, Client(server.config) as client:
        with pytest.raises(TooManyRequests, match="too many logs") as caught:
            async with aclosing(client.logs("a", "default")) as lines:
                await anext(lines)
    assert caught.value.retry_after == 7


async def test_a_reader_that_stops_early_leaves_no_connection(secure: bool = False) -> None:
    async def floods(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(chunk(b"x" * 10_000))
            await writer.drain()
            await asyncio.sleep(0)

    async with Beside(says(HEAD, then=floods), secure=secure) as server:
        async with server.stream() as stream:
            await anext(stream.chunks)
            assert server.open == 1
        await asyncio.wait_for(server.ended.wait(), 5)
        assert server.open == 0


@pytest.mark.parametrize("head", [b"", HEAD], ids=["before the head", "in the body"])
async def test_a_cancelled_reader_leaves_no_connection(head: bytes) -> None:
    async with Beside(says(head, then=waits)) as server:

        async def read() -> None:
            async with server.stream() as stream:
                await all_of(stream)

        reading = asyncio.create_task(read())
        while not server.asked:
            await asyncio.sleep(0)
        await asyncio.sleep(0.02)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await asyncio.wait_for(server.ended.wait(), 5)


async def test_an_ended_stream_leaves_no_connection(secure: bool = False) -> None:
    async with Beside(says(HEAD + chunk(b"all") + LAST, then=waits), secure=secure) as server:
        async with server.stream() as stream:
            assert await all_of(stream) == b"all"
            kept = weakref.ref(stream.chunks)
        del stream
        await asyncio.wait_for(server.ended.wait(), 5)
        await asyncio.sleep(0.02)
        gc.collect()
        assert kept() is None, "nor a timer that keeps its memory"


async def test_a_closed_wire_ends_its_streams() -> None:
    async with Beside(says(HEAD, then=waits)) as server:
        reading = asyncio.create_task(failure(server))
        while not server.asked:
            await asyncio.sleep(0)
        await asyncio.sleep(0.02)
        await server.wire.close()
        await asyncio.wait_for(reading, 5)
        await asyncio.wait_for(server.ended.wait(), 5)


async def test_a_slow_reader_slows_the_server_and_not_the_memory(secure: bool = False) -> None:
    size, sent = 2**20, 0

    async def floods(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        for _number in range(24):
            writer.write(chunk(b"x" * size))
            await writer.drain()
            sent += size
        writer.write(LAST)

    async with Beside(says(HEAD, then=floods), secure=secure) as server, server.stream(0.5) as stream:
        await asyncio.sleep(0.8)  # longer than the silence that is suffered: it is ours, not the server's
        assert sent < 20 * size, "the rest waits at the server"
        pieces = [len(part) async for part in stream.chunks]
    assert sum(pieces) == 24 * size
    assert max(pieces) < 4 * READ_BUFFER


async def test_a_reader_that_keeps_up_is_never_paused_for_and_one_that_is_away_is() -> None:
    orders: list[str] = []

    class Transport(asyncio.Transport):
        def is_closing(self) -> bool:
            return False

        def pause_reading(self) -> None:
            orders.append("pause")

        def resume_reading(self) -> None:
            orders.append("resume")

    stream = Streaming(None)
    with socket.socket() as made:
        stream.connection_made(Transport({"socket": made}))
    stream.data_received(HEAD)
    piece = chunk(b"x" * (READ_BUFFER * 2 // 3))
    for _ in range(3):
        reading = asyncio.create_task(anext(stream))
        await asyncio.sleep(0)
        stream.data_received(piece)
        await reading
    assert orders == []
    for _ in range(3):  # what a transport has still read when it is told to pause is taken, too
        stream.data_received(piece)
    assert orders == ["pause"]
    assert len(await anext(stream)) == READ_BUFFER * 2 // 3 * 3
    assert orders == ["pause", "resume"]


async def test_silence_ends_a_stream_in_time(secure: bool = False) -> None:
    loop = asyncio.get_running_loop()
    for pieces in ((), (HEAD[:9],), (HEAD, chunk(b"one"), b"9\r\nhal")):
        async with Beside(says(*pieces, then=waits), secure=secure) as server:
            began = loop.time()
            came, error = await failure(server, 0.15)
            assert 0.14 <= loop.time() - began < 2
            assert str(error) == "no answer in 0.15 s"
            assert (error.sent, error.again, error.slow) == (True, True, True)
            assert came == (b"onehal" if pieces[1:] else b"")
            await asyncio.wait_for(server.ended.wait(), 5)


async def test_whoever_speaks_now_and_then_is_not_silent() -> None:
    async def speaks(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _number in range(8):
            writer.write(chunk(b"."))
            await asyncio.sleep(0.1)
        writer.write(LAST)

    async with Beside(says(HEAD, then=speaks)) as server, server.stream(0.4) as stream:
        assert await all_of(stream) == b"." * 8


async def test_a_log_may_be_silent_for_as_long_as_it_likes() -> None:
    async def pauses(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.2)
        writer.write(chunk(b"at last") + LAST)

    async with Beside(says(HEAD, then=pauses)) as server, server.stream(None) as stream:
        assert await all_of(stream) == b"at last"


async def test_half_an_answer_is_an_error_after_what_came(secure: bool = False) -> None:
    with_length = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
    for text, came in (
        (b"", b""),
        (HEAD[:-2], b""),
        (HEAD, b""),
        (HEAD + chunk(b"one"), b"one"),
        (HEAD + chunk(b"one") + b"9\r\nhalf", b"onehalf"),
        (HEAD + chunk(b"one") + b"0\r\n", b"one"),
        (with_length + b"half", b"half"),
    ):
        async with Beside(says(text), secure=secure) as server:
            found, error = await failure(server)
        assert (found, str(error)) == (came, "it closed the connection")
        assert (error.sent, error.again, error.slow) == (True, True, False)


async def test_a_reset_is_told_by_its_name() -> None:
    async with Beside(says(HEAD, then=resets)) as server:
        _, error = await failure(server)
    assert "reset" in str(error)


async def test_what_is_no_http_is_told() -> None:
    for text in (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", HEAD + chunk(b"one") + b"no size\r\n"):
        async with Beside(says(text, then=waits)) as server:
            _, error = await failure(server)
            assert str(error) == "it does not speak HTTP"
            await asyncio.wait_for(server.ended.wait(), 5)


async def test_a_server_of_another_ca_is_refused_with_the_reason() -> None:
    async with Beside(waits, secure=True) as server:
        server.config.ca = Authority("other").pem
        _, error = await failure(server)
    assert str(error).startswith("its certificate is not trusted: ")
    assert (error.sent, error.again, error.slow) == (False, False, False)


def refused(config: ClusterConfig) -> None:
    config.server = "http://127.0.0.1:1"


def unknown(config: ClusterConfig) -> None:
    config.server = "http://nowhere.invalid"


def untrusted(config: ClusterConfig) -> None:
    config.ca = Authority("other").pem


def no_tls(config: ClusterConfig) -> None:
    config.server = config.server.replace("http:", "https:")


@pytest.mark.parametrize(
    ("spoil", "handler", "secure"),
    [
        (refused, waits, False),
        (unknown, waits, False),
        (untrusted, waits, True),
        (no_tls, says(b"what?\r\n\r\n"), False),
        (None, waits, False),
        (None, says(HEAD, then=waits), False),
        (None, says(), False),
        (None, says(HEAD + b"9\r\nhalf"), False),
        (None, says(HEAD, then=resets), False),
    ],
    ids="refused unknown untrusted no-tls no-head silence no-answer half reset".split(),
)
async def test_a_failure_is_told_as_the_library_tells_it(
    spoil: Callable[[ClusterConfig], None] | None,
    handler: Handler,
    secure: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that it does not matter whether there is a proxy. Only what broke off is told in other words."""

    def no_such_name(*_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    errors = []
    for wire in (AiohttpWire, KeptWire):
        async with Beside(handler, secure=secure, hasty=spoil is no_tls, wire=wire) as server:
            if spoil is not None:
                spoil(server.config)
                server.wire = wire(server.config)
            with monkeypatch.context() as patch:
                if spoil is unknown:
                    patch.setattr(socket, "getaddrinfo", no_such_name)
                errors.append((await failure(server, 0.2))[1])
    library, ours = errors
    assert (ours.sent, ours.again, ours.slow) == (library.sent, library.again, library.slow)
    if library.slow or not library.sent:
        assert str(ours).split(":")[0] == str(library).split(":")[0]


async def test_a_server_that_never_shakes_hands_was_never_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vcjob.kube.server.CONNECT_SECONDS", 0.1)
    async with Beside(waits, hasty=True) as server:
        no_tls(server.config)
        server.wire = KeptWire(server.config)
        _, error = await failure(server)
    assert str(error) == "no answer in 0.1 s"
    assert (error.sent, error.again, error.slow) == (False, True, True)


async def test_a_new_credential_speaks_from_the_next_stream_on() -> None:
    async with Beside(says(HEAD + LAST)) as server:
        for token in ("old", "new"):
            async with server.wire.stream("/", bearer(token), 5.0) as stream:
                await all_of(stream)
    assert [b"Bearer old" in server.asked[0], b"Bearer new" in server.asked[1]] == [True, True]


@pytest.mark.parametrize(("loop", "secure"), [("asyncio", True), ("uvloop", False), ("uvloop", True)])
@pytest.mark.parametrize(
    "behaviour",
    [
        test_events_come_as_they_happen,
        test_a_reader_that_stops_early_leaves_no_connection,
        test_an_ended_stream_leaves_no_connection,
        test_a_slow_reader_slows_the_server_and_not_the_memory,
        test_silence_ends_a_stream_in_time,
        test_half_an_answer_is_an_error_after_what_came,
    ],
    ids=lambda behaviour: behaviour.__name__.removeprefix("test_"),
)
def test_it_is_the_same_with_tls_and_on_the_faster_loop_of_the_controller(
    behaviour: Callable[..., Coroutine[Any, Any, None]], loop: str, secure: bool
) -> None:
    made = pytest.importorskip(loop, reason=f"{loop} is not installed").new_event_loop
    with asyncio.Runner(loop_factory=made) as runner:
        runner.run(behaviour(secure=secure))


def test_another_ca_is_refused_on_the_faster_loop_too() -> None:
    uvloop = pytest.importorskip("uvloop", reason="uvloop is not installed")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test_a_server_of_another_ca_is_refused_with_the_reason())
