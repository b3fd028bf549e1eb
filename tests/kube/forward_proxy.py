"""A forward proxy for tests: tunnels (CONNECT) for https, forwarded requests for http."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit


class ForwardProxy:
    """`async with ForwardProxy() as proxy:` then use `proxy.url`. `requests` are the request lines it received."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.url = ""

    async def __aenter__(self) -> ForwardProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream: asyncio.StreamWriter | None = None
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            line = head.split(b"\r\n", 1)[0].decode()
            self.requests.append(line)
            method, target, _ = line.split(" ")
            parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
            responses, upstream = await asyncio.open_connection(parts.hostname, parts.port)
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                upstream.write(head)
            await asyncio.gather(_pump(reader, upstream), _pump(responses, writer))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            for end in (writer, upstream):
                if end is not None:
                    end.transport.abort()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Forward bytes; an end of one direction ends both, a reset is forwarded as a reset."""
    while data := await source.read(65536):
        sink.write(data)
        await sink.drain()
    sink.close()
    await sink.wait_closed()
