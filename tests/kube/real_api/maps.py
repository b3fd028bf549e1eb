"""ConfigMaps with labels, and a running informer of them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from vcjob.kube.api.objects import Meta
from vcjob.kube.api.resources import CONFIG_MAPS
from vcjob.kube.controller.informer import Informer
from vcjob.kube.controller.watch import WatchSettings

STREAMED = WatchSettings(first_delay=0.05, longest_delay=0.5)
PAGED = WatchSettings(first_delay=0.05, longest_delay=0.5, stream_first_list=False, page_size=3)


class LabelledMeta(Meta):
    labels: dict[str, str] = {}


class PartialMap(msgspec.Struct, gc=False):
    metadata: LabelledMeta
    data: dict[str, str] = {}


MAPS = CONFIG_MAPS.read_as(PartialMap)


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"test": "yes"}}, "data": data}


class running:
    """A running, synced informer."""

    def __init__(self, informer: Informer[Any]) -> None:
        self._informer = informer

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._informer.run())
        await asyncio.wait_for(self._informer.synced.wait(), 30)

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
