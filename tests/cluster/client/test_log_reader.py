"""Logs of a cluster that breaks off, repeats itself and has nothing to say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from tests.kube.fake_api import FakeApi, refuse
from vcjob.cluster.client import container_log
from vcjob.cluster.client.container_log import ContainerLog, Watched
from vcjob.cluster.client.jobs import JobClient, JobKey
from vcjob.cluster.client.log_reader import LogReader
from vcjob.cluster.client.log_source import Sink, Watermark, containers_of, moment_of, since_time, split
from vcjob.cluster.client.pod_view import PodView, newest_instance
from vcjob.errors import BackendError
from vcjob.kube.api.client import LONGEST_LINE, Client
from vcjob.kube.config.auth import Fixed
from vcjob.kube.config.config import ClusterConfig
from vcjob.report.logs import LogFilter

RUNNING: dict[str, Any] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
ENDED: dict[str, Any] = {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:00:09Z"}}


@pytest_asyncio.fixture
async def client(api: FakeApi) -> AsyncIterator[Client]:
    async with Client(ClusterConfig(server=api.url, source=Fixed())) as made:
        yield made


def pod(
    state: dict[str, Any], *, name: str = "p", phase: str = "Running", restarts: int = 0, **fields: Any
) -> PodView:
    status = {"name": "main", "restartCount": restarts, "state": state, **fields}
    marks = {"volcano.sh/task-spec": "worker", "volcano.sh/task-index": "1", "vcjob.io/attempt": "2"}
    containers = [
        {"name": "main", "env": [{"name": "RANK", "value": "2"}]},
        {"name": "proxy"},
    ]
    document = {
        "metadata": {"name": name, "namespace": "default", "uid": "u", "annotations": marks},
        "spec": {
            "containers": containers,
            "initContainers": [{"name": "wait"}, {"name": "mesh", "restartPolicy": "Always"}],
        },
        "status": {"phase": phase, "containerStatuses": [status]},
    }
    return msgspec.convert(document, PodView)


def stamped(*texts: str, second: int = 1) -> bytes:
    return b"".join(
        f"2026-01-01T00:00:{second:02d}.{n:09d}Z {text}\n".encode() for n, text in enumerate(texts, 1)
    )


def written(sink: Sink) -> list[str]:
    return b"".join(chunk.data for chunk in sink.take()).decode().splitlines()


async def follow(client: Client, watched: Watched, sink: Sink, **options: Any) -> None:
    async with asyncio.timeout(20):
        await ContainerLog(client, watched, "main", sink, **options).run()


async def test_a_log_that_breaks_off_goes_on_where_it_was(api: FakeApi, client: Client) -> None:
    whole = stamped("one", "two", "three", "four")
    api.logs["p"] = [whole]
    watched = Watched(pod(RUNNING))

    async def half_then_hang_up(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(whole[: len(whole) // 2])
        await asyncio.sleep(0.05)
        watched.put(pod(ENDED, phase="Failed"))
        return await api.hang_up(request)

    api.on_next("GET", "/log", half_then_hang_up)
    sink = Sink()
    await follow(client, watched, sink)
    assert written(sink) == ["one", "two", "three", "four"]
    again = [query for _, path, query in api.requests if path.endswith("/log")][1]
    assert again["sinceTime"] == "2026-01-01T00:00:01Z", "whole seconds: the server repeats itself"


async def test_a_try_that_came_and_went_unseen_is_read_as_the_previous_one(
    api: FakeApi, client: Client
) -> None:
    async def earlier(_: web.Request) -> web.StreamResponse:
        return web.Response(body=stamped("first try"))

    api.on_next("GET", "previous=true", earlier)
    api.logs["p"] = [stamped("second try", second=5)]
    sink = Sink()
    await follow(client, Watched(pod(ENDED, phase="Failed", restarts=1)), sink)
    assert written(sink) == ["first try", "second try"]


async def unavailable(_: web.Request) -> web.StreamResponse:
    return refuse(500, "InternalError", "the kubelet does not respond")


async def test_the_log_of_a_previous_instance_survives_an_error_of_the_server(
    api: FakeApi, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def earlier(_: web.Request) -> web.StreamResponse:
        return web.Response(body=stamped("traceback"))

    monkeypatch.setattr(container_log, "_FIRST_DELAY", 0.0)
    api.on_next("GET", "previous=true", unavailable, times=2)
    api.on_next("GET", "previous=true", earlier)
    api.logs["p"] = [stamped("second try", second=5)]
    sink = Sink()
    await follow(client, Watched(pod(ENDED, phase="Failed", restarts=1)), sink)
    assert written(sink) == ["traceback", "second try"]


async def test_a_previous_log_that_stays_unreadable_is_left_out_with_a_note(
    api: FakeApi, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_log, "_FIRST_DELAY", 0.0)
    api.on_next("GET", "previous=true", unavailable, times=100)
    api.logs["p"] = [stamped("second try")]
    sink = Sink()
    await follow(client, Watched(pod(ENDED, phase="Failed", restarts=1)), sink)
    assert written(sink) == ["second try"]
    assert sink.take_notes() == [
        "the log of rank 2 worker-1 cannot be read at present: the kubelet does not respond",
        "the log of rank 2 worker-1 before its restart could not be read",
    ]


async def test_a_log_that_the_kubelet_has_deleted_is_reported(api: FakeApi, client: Client) -> None:
    async def nothing(_: web.Request) -> web.StreamResponse:
        return web.Response(body=b"unable to retrieve container logs for containerd://4ad")

    api.on_next("GET", "previous=true", nothing)
    api.logs["p"] = [stamped("second try")]
    sink = Sink()
    await follow(client, Watched(pod(ENDED, phase="Failed", restarts=1)), sink)
    assert written(sink) == ["second try"]
    assert sink.take_notes() == [
        "the kubelet reports about rank 2 worker-1: unable to retrieve container logs for containerd://4ad"
    ]


async def test_a_line_without_an_end_is_written_in_parts_once_each(api: FakeApi, client: Client) -> None:
    stamp, watched = b"2026-01-01T00:00:01.5Z ", Watched(pod(RUNNING))
    whole = stamp + b"x" * (3 * LONGEST_LINE) + b"\n" + stamped("next", second=5)

    async def hang_up_inside(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(whole[: 2 * LONGEST_LINE + 5])
        while b"".join(chunks).count(b"\n") < 2:
            chunks.extend(chunk.data for chunk in sink.take())
            await asyncio.sleep(0.001)
        watched.put(pod(ENDED, phase="Failed"))
        return await api.hang_up(request)

    chunks: list[bytes] = []
    api.logs["p"] = [whole]
    api.on_next("GET", "/log", hang_up_inside)
    sink = Sink()
    await follow(client, watched, sink)
    chunks.extend(chunk.data for chunk in sink.take())
    parts = b"".join(chunks).splitlines()
    assert [len(part) for part in parts[:-1]] == [LONGEST_LINE - len(stamp), *[LONGEST_LINE] * 2, len(stamp)]
    assert parts[-1] == b"next"
    assert sink.take_notes() == []


async def test_a_line_as_long_as_a_part_is_one_line(api: FakeApi, client: Client) -> None:
    stamp = b"2026-01-01T00:00:01.5Z "
    api.logs["p"] = [stamp + b"x" * (LONGEST_LINE - len(stamp)) + b"\n" + stamped("next", second=5)]
    sink = Sink()
    await follow(client, Watched(pod(ENDED, phase="Failed")), sink)
    assert [len(line) for line in written(sink)] == [LONGEST_LINE - len(stamp), 4]


async def test_nothing_is_read_before_the_container_has_begun(api: FakeApi, client: Client) -> None:
    watched, sink = Watched(pod({"waiting": {"reason": "PodInitializing"}}, phase="Pending")), Sink()
    reading = asyncio.create_task(follow(client, watched, sink))
    await asyncio.sleep(0)
    assert api.count("GET", "/log") == 0
    api.logs["p"] = [stamped("hello")]
    watched.put(pod(ENDED, phase="Succeeded"))
    await reading
    assert written(sink) == ["hello"]


class TwoPods(JobClient):
    """A client of a Job with the pods p and q."""

    async def pods(self, key: JobKey) -> list[PodView]:
        return [pod(RUNNING, name="p"), pod(RUNNING, name="q")]


@pytest.mark.parametrize(
    ("code", "reason", "message"),
    [(403, "Forbidden", "you may not read logs"), (401, "Unauthorized", "does not accept your credentials")],
)
async def test_a_refusal_is_reported_while_the_other_logs_are_still_being_read(
    api: FakeApi, code: int, reason: str, message: str
) -> None:
    asked = asyncio.Event()

    async def never(_: web.Request) -> web.StreamResponse:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def refused(_: web.Request) -> web.StreamResponse:
        await asked.wait()
        return refuse(code, reason)

    api.on_next("GET", "/pods/p/log", refused, times=3)
    api.on_next("GET", "/pods/q/log", never)
    jobs = TwoPods(ClusterConfig(server=api.url, source=Fixed()))
    reader = LogReader(jobs, JobKey("train", "default", "j"), LogFilter(), Sink(), since=None, tail=None)
    with pytest.raises(BackendError, match=message):
        async with asyncio.timeout(20):
            await reader.run()
    await jobs.close()


def test_the_rank_is_its_own_container_and_sidecars_are_not() -> None:
    seen = pod(RUNNING)
    assert (seen.rank, seen.task, seen.index, seen.attempt) == (2, "worker", 1, 2)
    assert containers_of(seen, LogFilter()) == ["main"]
    assert containers_of(seen, LogFilter(every_try=True)) == ["wait", "main"]
    assert containers_of(seen, LogFilter(containers=("proxy",))) == ["proxy"]
    named = msgspec.structs.replace(seen.metadata.annotations, own_container="proxy")
    seen.metadata.annotations = named
    assert containers_of(seen, LogFilter()) == ["proxy"]


def test_a_container_that_waits_to_be_started_again_has_ended() -> None:
    waiting = pod({"waiting": {"reason": "CrashLoopBackOff"}}, lastState=ENDED, restarts=3)
    assert newest_instance(waiting.container("main")) == (3, True)
    assert newest_instance(waiting.container("proxy")) is None


def test_the_time_of_a_line_is_read_in_any_zone() -> None:
    assert split(b"2026-01-01T02:00:01.5+02:00 a b") == ((1767225601, 500_000_000), b"a b")
    assert split(b"2026-01-01T00:00:01Z ") == ((1767225601, 0), b"")
    assert split(b"unable to retrieve container logs") is None
    assert since_time(moment_of(1767225601.75)) == "2026-01-01T00:00:01Z"


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=12), st.data())
def test_a_reader_that_comes_back_drops_exactly_what_it_had(
    moments: list[tuple[int, int]], data: st.DataObject
) -> None:
    """However often it breaks off; the server repeats from the beginning of the last second each time."""
    moments.sort()
    mark, taken = Watermark(), []
    for cut in [*data.draw(st.lists(st.integers(0, len(moments)), max_size=4)), len(moments)]:
        mark.resume()
        start = 0 if mark.moment is None else mark.moment[0]
        for place, moment in enumerate(moments[:cut]):
            if moment[0] >= start and mark.takes(moment):
                taken.append(place)
    assert taken == list(range(len(moments)))


def test_lines_that_are_written_out_of_order_are_read() -> None:
    """Those of stdout and stderr differ by microseconds, and the clock of a node may be set back."""
    mark = Watermark()
    assert all(mark.takes(moment) for moment in [(10, 500), (10, 700), (10, 600), (9, 0)])
    mark.resume()
    again = [(10, 500), (10, 700), (10, 600), (10, 800), (10, 750)]
    assert [mark.takes(moment) for moment in again] == [False, False, False, True, True]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=12), st.data())
def test_lines_out_of_order_are_never_repeated(moments: list[tuple[int, int]], data: st.DataObject) -> None:
    """After a break a line that is not newer than all before it may be left out; without one, none is."""
    mark, taken = Watermark(), []
    cuts = data.draw(st.lists(st.integers(0, len(moments)), max_size=4))
    for cut in [*cuts, len(moments)]:
        mark.resume()
        start = 0 if mark.moment is None else mark.moment[0]
        for place, moment in enumerate(moments[:cut]):
            if moment[0] >= start and mark.takes(moment):
                taken.append(place)
    assert taken == sorted(set(taken))
    newest = {place for place, moment in enumerate(moments) if moment >= max(moments[: place + 1])}
    assert newest <= set(taken)
    if not any(cuts):
        assert taken == list(range(len(moments)))
