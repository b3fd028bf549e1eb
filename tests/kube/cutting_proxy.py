"""A TCP proxy between the client and a real API server that drops connections on purpose."""

from __future__ import annotations

import asyncio
import random


class CuttingProxy:
    """Forwards bytes. `chance` of each response: the connection is closed after the server has done the work."""

    def __init__(self, host: str, port: int, *, seed: int = 1) -> None:
        self._target = (host, port)
        self._random = random.Random(seed)
        self.chance = 0.0
        self.cuts = 0
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> CuttingProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut_all()
        await asyncio.sleep(0)

    def cut_all(self) -> None:
        """Abort every connection."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        upstream: asyncio.StreamWriter | None = None
        try:
            answers, upstream = await asyncio.open_connection(*self._target)
            there = asyncio.create_task(self._pump(reader, upstream))
            back = asyncio.create_task(self._pump(answers, writer, cuts=True))
            await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
            for task in (there, back):
                task.cancel()
            await asyncio.gather(there, back, return_exceptions=True)
        except OSError:
            pass
        finally:
            self._writers.discard(writer)
            for end in (writer, upstream):
                if end is not None:
                    end.transport.abort()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, cuts: bool = False
    ) -> None:
        try:
            while chunk := await source.read(65536):
                if cuts and self._random.random() < self.chance:
                    self.cuts += 1
                    sink.transport.abort()
                    return
                sink.write(chunk)
                await sink.drain()
        except OSError:
            return
