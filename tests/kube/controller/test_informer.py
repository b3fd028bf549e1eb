"""Informers: a correct cache that knows how recent it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from tests.kube.conftest import seen
from tests.kube.fake_api import FakeApi, refuse
from vcjob.kube.api.client import Client
from vcjob.kube.api.objects import Meta
from vcjob.kube.api.resources import PODS
from vcjob.kube.controller.informer import Informer
from vcjob.kube.controller.watch import WatchSettings

QUICK = WatchSettings(first_delay=0.01, longest_delay=0.05, idle_timeout=60.0)


class Pod(msgspec.Struct, gc=False):
    metadata: Meta
    x: str = ""


class Recorder:
    """Records the calls of the handlers."""

    def __init__(self, informer: Informer[Pod]) -> None:
        self.calls: list[str] = []
        self.news = asyncio.Event()
        informer.on_change(
            add=lambda new: self.note(f"add {new.metadata.name} {new.x}"),
            update=lambda old, new: self.note(f"update {new.metadata.name} {old.x}>{new.x}"),
            delete=lambda old: self.note(f"delete {old.metadata.name} {old.x}"),
        )

    def note(self, text: str) -> None:
        self.calls.append(text.strip())
        self.news.set()

    async def until(self, *wanted: str) -> None:
        async with asyncio.timeout(60):
            while self.calls[-len(wanted) :] != list(wanted):
                self.news.clear()
                await self.news.wait()


@asynccontextmanager
async def running(client: Client, **options: object) -> AsyncIterator[tuple[Informer[Pod], Recorder]]:
    informer = Informer(client, PODS.read_as(Pod), settings=QUICK, **options)  # type: ignore[arg-type]
    recorder = Recorder(informer)
    task = asyncio.create_task(informer.run())
    try:
        await asyncio.wait_for(informer.synced.wait(), 60)
        yield informer, recorder
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_handlers_receive_additions_updates_and_deletions(api: FakeApi, client: Client) -> None:
    await api.put("pods", "a", x="1")
    async with running(client) as (informer, recorder):
        assert recorder.calls == ["add a 1"]
        await api.put("pods", "a", x="2")
        await api.put("pods", "b", x="1")
        await api.drop("pods", "a")
        await recorder.until("update a 1>2", "add b 1", "delete a 2")
        assert [pod.metadata.name for pod in informer] == ["b"]
        assert informer.get("a", "default") is None
        assert informer.get("b", "default") is not None


async def test_a_new_list_reports_only_the_differences(api: FakeApi, client: Client) -> None:
    for name in ("same", "changed", "gone"):
        await api.put("pods", name, x="1")
    async with running(client) as (_, recorder):
        recorder.calls.clear()
        watching = asyncio.Event()

        async def behind_its_back(_: object) -> None:
            watching.set()

        api.on_next("GET", "sendInitialEvents", behind_its_back)
        api.mangle = lambda line: b"" if not watching.is_set() else line
        await api.put("pods", "changed", x="2")
        await api.drop("pods", "gone")
        await api.put("pods", "new", x="1")
        api.forget_history()
        await api.cut_watches()
        api.mangle = None
        await recorder.until("delete gone 1", "update changed 1>2", "add new 1")
        assert len(recorder.calls) == 3


async def test_an_object_with_a_new_uid_is_a_deletion_and_an_addition(api: FakeApi, client: Client) -> None:
    await api.put("pods", "a", x="1")
    async with running(client) as (informer, recorder):
        api.mangle = lambda line: b""
        await api.drop("pods", "a")
        await api.put("pods", "a", x="2")
        api.forget_history()
        api.mangle = None
        await api.cut_watches()
        await recorder.until("delete a 1", "add a 2")
        assert len(informer) == 1


async def test_a_late_deletion_of_an_earlier_uid_removes_nothing(api: FakeApi, client: Client) -> None:
    await api.put("pods", "a", x="1")
    async with running(client) as (informer, recorder):
        stale = {
            "metadata": {"name": "a", "namespace": "default", "uid": "long-gone", "resourceVersion": "101"}
        }
        await api.emit("pods", {"type": "DELETED", "object": stale})
        await api.put("pods", "b")
        await recorder.until("add b")
        assert informer.get("a", "default") is not None


async def test_our_own_write_is_waited_for(api: FakeApi, client: Client) -> None:
    await api.put("pods", "a")
    async with running(client) as (informer, _):
        made = await client.create(PODS, PODS.manifest("mine", "default"), "default")
        version = made["metadata"]["resourceVersion"]
        await seen(informer, version)
        assert informer.get("mine", "default") is not None
        assert informer.resource_version == int(version)


async def test_a_bookmark_counts_as_seen(api: FakeApi, client: Client) -> None:
    async with running(client) as (informer, _):
        before = api.version
        await api.bookmark("pods")
        await seen(informer, before + 1)


async def test_a_failing_handler_does_not_stop_the_others(
    api: FakeApi, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: Pod) -> None:
        raise RuntimeError("broken handler")

    async with running(client) as (informer, recorder):
        informer.on_change(add=fails)
        await api.put("pods", "a")
        await api.put("pods", "b")
        await recorder.until("add a", "add b")
    assert "broken handler" in caplog.text


async def test_a_handler_registered_late_receives_all_objects(api: FakeApi, client: Client) -> None:
    await api.put("pods", "a")
    async with running(client) as (informer, _):
        calls: list[str] = []
        informer.on_change(add=lambda pod: calls.append(pod.metadata.name))
        assert calls == ["a"]


async def test_the_reason_for_a_stale_cache_is_available(api: FakeApi, client: Client) -> None:
    api.on_next("GET", "pods", refuse(403, "Forbidden", "not you"))
    errors: list[Exception] = []
    async with running(client, on_error=errors.append) as (informer, _):
        assert informer.last_error is None
    assert [str(error).count("not you") for error in errors] == [1]


async def test_a_cache_of_one_namespace_holds_nothing_else(api: FakeApi, client: Client) -> None:
    await api.put("pods", "a", "one")
    await api.put("pods", "b", "two")
    async with running(client, namespace="one") as (informer, recorder):
        await api.put("pods", "c", "two")
        await api.put("pods", "d", "one")
        await recorder.until("add d")
        assert {pod.metadata.name for pod in informer} == {"a", "d"}


async def test_the_cache_is_correct_after_many_disconnects(api: FakeApi, client: Client) -> None:
    import random

    dice = random.Random(7)
    async with running(client) as (informer, recorder):
        for number in range(300):
            name = f"p{dice.randrange(20)}"
            if ("pods", "default", name) in api.objects and dice.random() < 0.3:
                await api.drop("pods", name)
            else:
                await api.put("pods", name, x=str(number))
            if dice.random() < 0.05:
                if dice.random() < 0.4:
                    api.forget_history()
                await api.cut_watches()
            if dice.random() < 0.1:
                await asyncio.sleep(0.002)
        await seen(informer, api.version)
        truth = {name: o["x"] for (_, _, name), o in api.objects.items()}
        assert {pod.metadata.name: pod.x for pod in informer} == truth
        standing: set[str] = set()
        for line in recorder.calls:
            verb, name, *_ = line.split()
            assert (name in standing) == (verb != "add"), line
            standing.add(name) if verb == "add" else standing.discard(name) if verb == "delete" else None
        assert standing == set(truth)
