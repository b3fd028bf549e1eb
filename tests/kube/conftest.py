from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from tests.kube.fake_api import FakeApi
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import PODS
from vcjob.kube.config.auth import Fixed
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.controller.informer import Informer
from vcjob.kube.http.transport import Transport


@pytest_asyncio.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as server:
        yield server


def config_for(server: FakeApi) -> ClusterConfig:
    return ClusterConfig(server=server.url, source=Fixed())


async def seen(informer: Informer[Any], version: int | str) -> None:
    """Wait until the cache contains the write that returned this version."""
    async with asyncio.timeout(60):
        while informer.resource_version < int(version):
            await asyncio.sleep(0.005)


def pod(name: str, **metadata: object) -> dict[str, object]:
    """A pod manifest with a field that no struct has."""
    return PODS.manifest(name, "default", spec={"futureField": 1}) | {"metadata": {"name": name, **metadata}}


@pytest_asyncio.fixture
async def client(api: FakeApi) -> AsyncIterator[Client]:
    config = config_for(api)
    async with Client(config, transport=Transport(config, retry_seconds=5.0)) as made:
        yield made
