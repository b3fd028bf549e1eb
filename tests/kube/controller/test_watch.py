"""Watches resume, detect dead connections, and never lose or invent a change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

import msgspec
import pytest

from tests.kube.api.test_codec import config_map
from tests.kube.fake_api import FakeApi, refuse, status
from vcjob.kube.api.client import Client
from vcjob.kube.api.lines import LineSplitter
from vcjob.kube.api.objects import Meta, MetadataReader
from vcjob.kube.api.resources import CONFIG_MAPS, PODS, Resource
from vcjob.kube.backoff import Backoff
from vcjob.kube.controller.watch import (
    INITIAL_EVENTS_END,
    TICK_SECONDS,
    Batch,
    Change,
    Follower,
    Snapshot,
    WatchSettings,
    follow,
    until_tick,
)
from vcjob.kube.errors import Forbidden, NotFound, Unreachable

QUICK = WatchSettings(first_delay=0.01, longest_delay=0.05, idle_timeout=60.0)
PAGED = WatchSettings(
    first_delay=0.01, longest_delay=0.05, idle_timeout=60.0, stream_first_list=False, page_size=2
)


class Strict(msgspec.Struct):
    metadata: Meta
    x: str = ""


class Reader:
    """Reads a watch step by step into a dict, as a cache would."""

    def __init__(self, steps: AsyncIterator[Snapshot[Any] | Batch[Any]]) -> None:
        self.steps = steps
        self.state: dict[str, str] = {}
        self.snapshots = 0
        self.version = ""

    async def until(self, wanted: dict[str, str] | None) -> None:
        async with asyncio.timeout(60):
            while self.state != wanted:
                await self.step()

    async def step(self) -> Snapshot[Any] | Batch[Any]:
        step = await anext(self.steps)
        if isinstance(step, Snapshot):
            self.snapshots += 1
            self.state = {o["metadata"]["name"]: o.get("x", "") for o in step.items}
        else:
            for change in step.changes:
                name = change.object["metadata"]["name"]
                if change.type == "DELETED":
                    del self.state[name]
                else:
                    self.state[name] = change.object.get("x", "")
        self.version = step.resource_version
        return step


@asynccontextmanager
async def reading(client: Client, settings: WatchSettings = QUICK, **options: Any) -> AsyncIterator[Reader]:
    async with aclosing(follow(client, PODS, settings=settings, **options)) as steps:
        yield Reader(steps)


class DeepWatch:
    """Sends one deep object in the first list and one more later, each between ordinary ones."""

    def __init__(self) -> None:
        self.sent = 0

    @asynccontextmanager
    async def open_watch(self, *_: Any, **__: Any) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        yield self._pieces()

    async def _pieces(self) -> AsyncIterator[list[bytes]]:
        end = {"metadata": {"resourceVersion": "3", "annotations": {INITIAL_EVENTS_END: "true"}}}
        bookmark = json.dumps({"type": "BOOKMARK", "object": end}).encode() + b"\n"
        yield [self._line("a", 1), self._line("deep", 9_990), self._line("b", 1), bookmark]
        yield [self._line("c", 1), self._line("deeper", 9_990), self._line("d", 1)]
        await asyncio.Event().wait()

    def _line(self, name: str, levels: int) -> bytes:
        self.sent += 1
        return (
            f'{{"type":"ADDED","object":{config_map(name, levels).replace("7", str(self.sent))}}}\n'.encode()
        )


@pytest.mark.parametrize("kind", [CONFIG_MAPS, CONFIG_MAPS.read_as(Strict)], ids=["documents", "structs"])
async def test_a_deeply_nested_object_is_read_like_any_other(kind: Resource[Any]) -> None:
    """One ConfigMap of any user stopped every informer, and with it the controller, for everybody."""
    name_of = MetadataReader(kind.model).key
    async with asyncio.timeout(30), aclosing(follow(cast(Client, DeepWatch()), kind)) as steps:
        first, _bookmark, second = await anext(steps), await anext(steps), await anext(steps)
    assert isinstance(first, Snapshot) and isinstance(second, Batch)
    assert [name_of(found)[1] for found in first.items] == ["a", "deep", "b"]
    assert [name_of(change.object)[1] for change in second.changes] == ["c", "deeper", "d"]
    assert second.resource_version == "6"


@pytest.mark.parametrize("settings", [QUICK, PAGED], ids=["streamed", "paged"])
async def test_a_watch_yields_the_objects_and_then_the_changes(
    api: FakeApi, client: Client, settings: WatchSettings
) -> None:
    for name in "abc":
        await api.put("pods", name, x="1")
    async with reading(client, settings) as reader:
        await reader.until({"a": "1", "b": "1", "c": "1"})
        await api.put("pods", "a", x="2")
        await api.drop("pods", "b")
        await api.put("pods", "d", x="1")
        await reader.until({"a": "2", "c": "1", "d": "1"})
    assert reader.snapshots == 1
    assert reader.version == str(api.version)


async def test_a_server_without_streamed_lists_is_listed_in_pages(api: FakeApi, client: Client) -> None:
    api.watch_list = False
    await api.put("pods", "a")
    async with reading(client) as reader:
        await reader.until({"a": ""})
        await api.put("pods", "b")
        await reader.until({"a": "", "b": ""})
    assert api.count("GET", limit="500") == 1


async def test_a_disconnected_watch_resumes_at_the_last_version(api: FakeApi, client: Client) -> None:
    await api.put("pods", "a")
    async with reading(client) as reader:
        await reader.until({"a": ""})
        for round_ in range(3):
            await api.cut_watches()
            await api.put("pods", f"new{round_}")
        await reader.until({"a": "", "new0": "", "new1": "", "new2": ""})
    assert reader.snapshots == 1
    assert api.count("GET", sendInitialEvents="true") == 1


async def test_an_incomplete_line_is_not_an_event_and_is_not_lost(api: FakeApi, client: Client) -> None:
    await api.put("pods", "a")
    async with reading(client) as reader:
        await reader.until({"a": ""})
        cuts = 0

        def cut_once(line: bytes) -> bytes | None:
            nonlocal cuts
            cuts += 1
            return None if cuts == 1 else line

        api.mangle = cut_once
        await api.put("pods", "b", x="whole")
        await reader.until({"a": "", "b": "whole"})
    assert cuts == 2
    assert reader.snapshots == 1


async def test_an_expired_version_gives_a_new_snapshot(api: FakeApi, client: Client) -> None:
    await api.put("pods", "a")
    await api.put("pods", "b")
    async with reading(client) as reader:
        await reader.until({"a": "", "b": ""})
        await api.drop("pods", "b")
        api.forget_history()
        await api.cut_watches()
        await reader.until({"a": ""})
        await api.put("pods", "c")
        await reader.until({"a": "", "c": ""})


async def test_a_bookmark_advances_the_version_to_resume_from(api: FakeApi, client: Client) -> None:
    await api.put("pods", "a")
    async with reading(client) as reader:
        await reader.until({"a": ""})
        await api.bookmark("pods")
        while reader.version != str(api.version):
            await reader.step()
        api.forget_history()  # everything before the bookmark
        await api.cut_watches()
        await api.put("pods", "b")
        await reader.until({"a": "", "b": ""})
    assert reader.snapshots == 1


async def test_events_before_an_error_in_the_same_chunk_are_not_lost(api: FakeApi, client: Client) -> None:
    await api.put("pods", "a")
    async with reading(client) as reader:
        await reader.until({"a": ""})

        def with_error(line: bytes) -> bytes:
            api.mangle = None
            return (
                line
                + json.dumps({"type": "ERROR", "object": status(500, "InternalError", "storage")}).encode()
                + b"\n"
            )

        api.mangle = with_error
        await api.put("pods", "b")
        await reader.until({"a": "", "b": ""})
        await api.cut_watches()
        await api.put("pods", "c")
        await reader.until({"a": "", "b": "", "c": ""})
    assert reader.snapshots == 1


async def test_an_idle_watch_is_replaced_by_a_new_list(api: FakeApi, client: Client) -> None:
    """After a restored backup our version may be newer than the server's: a watch from it receives nothing."""
    await api.put("pods", "a")
    settings = WatchSettings(first_delay=0.01, longest_delay=0.05, idle_timeout=0.2)
    async with reading(client, settings) as reader:
        await reader.until({"a": ""})

        def only_lists(line: bytes) -> bytes:
            return line if api.count("GET", "pods") > 1 else b""

        api.mangle = only_lists
        await api.put("pods", "b")
        await reader.until({"a": "", "b": ""})
    assert reader.snapshots >= 2


async def test_errors_that_the_user_must_fix_are_raised(api: FakeApi, client: Client) -> None:
    api.on_next("GET", "pods", refuse(403, "Forbidden", "user cannot list pods"))
    with pytest.raises(Forbidden, match="user cannot list pods"):
        await anext(follow(client, PODS, settings=QUICK))
    api.on_next("GET", "pods", refuse(404, "NotFound", "no such kind"))
    with pytest.raises(NotFound):
        await anext(follow(client, PODS, settings=QUICK))
    await api.__aexit__()
    with pytest.raises(Unreachable):
        await anext(follow(client, PODS, settings=QUICK))


async def test_a_watch_with_on_error_retries_after_every_error(api: FakeApi, client: Client) -> None:
    errors: list[Exception] = []
    await api.put("pods", "a")
    for answer in (
        refuse(403, "Forbidden"),
        refuse(500, "InternalError"),
        refuse(429, "TooManyRequests"),
        refuse(401, "Unauthorized"),
    ):
        api.on_next("GET", "pods", answer)
    async with reading(client, on_error=errors.append) as reader:
        await reader.until({"a": ""})
    assert [getattr(error, "status", None) for error in errors] == [403, 500, 429, 401]


async def test_a_server_that_only_sends_errors_is_contacted_less_and_less(
    api: FakeApi, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[int] = []  # for which a delay was computed, which grows with them

    def delay(_: Backoff, before: int) -> float:
        failures.append(before)
        return 0.0

    monkeypatch.setattr(Backoff, "delay", delay)
    await api.put("pods", "a")
    async with reading(client, on_error=lambda _: None) as reader:
        await reader.until({"a": ""})
        broken = (
            json.dumps({"type": "ERROR", "object": status(500, "InternalError", "storage")}).encode() + b"\n"
        )
        api.mangle = lambda line: broken
        await api.put("pods", "b")
        waiting = asyncio.create_task(reader.until(None))
        while len(failures) < 4:
            await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert failures[:4] == [0, 1, 2, 3]


async def test_the_delay_between_attempts_grows_and_is_reset_by_a_success(
    api: FakeApi, client: Client
) -> None:
    follower = Follower(client, PODS, settings=WatchSettings(first_delay=1.0, longest_delay=8.0))
    delays = [follower._next_delay() for _ in range(8)]
    for number, delay in enumerate(delays):
        assert 0.5 * min(8.0, 2**number) <= delay <= 1.5 * min(8.0, 2**number)


async def test_an_invalid_object_does_not_hide_the_others(api: FakeApi, client: Client) -> None:
    errors: list[Exception] = []
    lean = PODS.read_as(Strict)
    await api.put("pods", "good", x="1")
    await api.put("pods", "odd", x={"not": "a string"})
    seen: list[str] = []
    for settings in (QUICK, PAGED):
        async with aclosing(follow(client, lean, settings=settings, on_error=errors.append)) as steps:
            step = await anext(steps)
            assert isinstance(step, Snapshot)
            seen += [found.metadata.name for found in step.items]
    assert seen == ["good", "good"]
    assert len(errors) == 2
    assert "default/odd" in str(errors[0])


async def test_changes_during_a_streamed_list_are_part_of_it(client: Client) -> None:
    def pod(name: str, x: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "namespace": "n"}, "x": x}

    changes = [
        Change("ADDED", pod("a", "1")),
        Change("ADDED", pod("b", "1")),
        Change("MODIFIED", pod("a", "2")),
        Change("DELETED", pod("b", "1")),
    ]
    assert Follower(client, PODS)._fold(changes) == [pod("a", "2")]


@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines_are_the_same_for_any_pieces(size: int, at_once: int) -> None:
    text = b"first\n\nthird line\n" + b"x" * 50 + b"\nrest"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    splitter = LineSplitter()
    lines = [
        line
        for at in range(0, len(pieces), at_once)
        for line in splitter.feed(pieces[at : at + at_once])
    ]  # fmt: skip
    assert [*lines, *splitter.feed([b"\n"])] == (text + b"\n").splitlines(keepends=True)


def test_a_piece_that_is_one_line_is_not_copied() -> None:
    pieces = [b'{"type":"ADDED"}\n', b'{"type":"DELETED"}\n']
    assert all(line is piece for line, piece in zip(LineSplitter().feed(pieces), pieces, strict=True))


async def test_a_watch_with_a_read_pause_delivers_everything_received_meanwhile(
    api: FakeApi, client: Client
) -> None:
    settings = msgspec.structs.replace(QUICK, read_pause=0.5)
    async with reading(client, settings) as reader:
        assert isinstance(await reader.step(), Snapshot)
        await api.put("pods", "alone")
        await reader.until({"alone": ""})
        coming = asyncio.ensure_future(reader.step())
        await asyncio.sleep(0)  # it pauses now
        for number in range(20):
            await api.put("pods", f"p{number}")
            await asyncio.sleep(0.001)  # without the pause they would be delivered one by one
        rush = await coming
        assert isinstance(rush, Batch) and len(rush.changes) == 20


@pytest.mark.parametrize("pause", [0.005, TICK_SECONDS, 0.05, 0.5])
async def test_all_pauses_end_at_common_ticks(pause: float) -> None:
    loop = asyncio.get_running_loop()
    seconds, now = until_tick(pause), loop.time()
    assert pause <= seconds < pause + TICK_SECONDS
    ticks = (now + seconds) / TICK_SECONDS
    assert abs(ticks - round(ticks)) < 0.1
