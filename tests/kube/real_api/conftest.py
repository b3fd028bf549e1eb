"""A client of the real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.testbed.cluster import Cluster
from vcjob.kube.api.client import Client
from vcjob.kube.config.config import load
from vcjob.kube.http.transport import Transport


@pytest_asyncio.fixture
async def client(api_server: Cluster) -> AsyncIterator[Client]:
    config = load(api_server.kubeconfig, environ={})
    async with Client(config, transport=Transport(config, retry_seconds=60)) as made:
        yield made
