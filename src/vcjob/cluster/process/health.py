"""Plain HTTP for the kubelet's probes and for Prometheus.

`process.main` starts both servers; they know nothing about Jobs.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from vcjob.cluster.http_server import HttpServer
from vcjob.cluster.process.metrics import CONTENT_TYPE, Metrics


class Health:
    """Alive as long as it answers; ready when it waits for nothing.

    `process.main` sets `waiting_for`, and the kubelet's probes ask. It sends no request to the API server.
    """

    def __init__(self) -> None:
        self.waiting_for = ""

    async def healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(self, _: web.Request) -> web.Response:
        if self.waiting_for:
            return web.Response(status=503, text=f"waiting for {self.waiting_for}\n")
        return web.Response(text="ok\n")


async def serve_health(health: Health, *, host: str, port: int) -> HttpServer:
    app = web.Application()
    app.router.add_get("/healthz", health.healthz)
    app.router.add_get("/readyz", health.readyz)
    server = HttpServer(app)
    await server.start(host, port)
    return server


async def serve_metrics(metrics: Metrics, *, host: str, port: int) -> HttpServer:
    async def show(_: web.Request) -> web.Response:
        body = await asyncio.to_thread(metrics.render)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    app = web.Application()
    app.router.add_get("/metrics", show)
    server = HttpServer(app)
    await server.start(host, port)
    return server
