from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.cluster.webhook.serving import Serve, Webhook, webhooks


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    async with webhooks() as begin:
        yield begin


@pytest.fixture
async def webhook(serve: Serve) -> Webhook:
    return await serve()
