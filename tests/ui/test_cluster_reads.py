"""What the page's streams send to the API server of a cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from tests.kube.fake_api import FakeApi, refuse
from vcjob.cli.list import select
from vcjob.report.logs import LogFilter
from vcjob.sdk.cluster_backend import ClusterBackend
from vcjob.ui import jobs, producers
from vcjob.ui.producers import pacing, views
from vcjob.ui.producers.log_stream import log_lines
from vcjob.ui.streams import Produced
from vcjob.wellknown.annotations import LIFECYCLE

JOB = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs/a"
CREATED = "2026-01-01T00:00:00Z"


async def add_job(api: FakeApi, name: str = "a", phase: str = "Completed") -> None:
    """A Job with one pod, both over, and the pod's log."""
    metadata = {"uid": f"uid-of-{name}", "creationTimestamp": CREATED}
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}}
    spec = {"minAvailable": 1, "tasks": [{"name": "w", "replicas": 1, "template": template}]}
    status = {"state": {"phase": phase, "lastTransitionTime": CREATED}, "succeeded": 1}
    await api.put("jobs", name, metadata=metadata, spec=spec, status=status)
    ended = {"terminated": {"exitCode": 0, "startedAt": CREATED, "finishedAt": CREATED}}
    await api.put(
        "pods",
        f"{name}-w-0",
        metadata={
            "creationTimestamp": CREATED,
            "labels": {"volcano.sh/job-name": name},
            "annotations": {"volcano.sh/task-spec": "w", "volcano.sh/task-index": "0"},
            "ownerReferences": [
                {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name,
                 "uid": f"uid-of-{name}", "controller": True}
            ],
        },
        spec={"containers": [{"name": "main", "env": [{"name": "RANK", "value": "0"}]}]},
        status={"phase": "Succeeded", "containerStatuses": [{"name": "main", "restartCount": 0, "state": ended}]},
    )  # fmt: skip
    api.logs[f"{name}-w-0"] = [b"2026-01-01T00:00:00.000000001Z step 3/9 loss 0.5\n"]


@pytest_asyncio.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as api:
        yield api


@pytest_asyncio.fixture
async def backend(api: FakeApi, tmp_path: Path) -> AsyncIterator[ClusterBackend]:
    config = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": api.url}}],
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    backend = ClusterBackend(None, str(tmp_path / "kubeconfig"))
    yield backend
    await asyncio.to_thread(backend._connect().close)


def parts(produced: Iterator[Produced], *, rounds: int = 1) -> dict[str, Any]:
    """What a stream sends in so many rounds, without the pauses between them."""
    found: dict[str, Any] = {}
    for each in produced:
        if isinstance(each, tuple):
            found[each[0]] = each[1]
        elif each >= 0.5:
            rounds -= 1
        if not rounds:
            break
    return found


async def test_a_read_only_page_writes_no_progress_into_the_job(
    api: FakeApi, backend: ClusterBackend
) -> None:
    await add_job(api)

    def follow(*, read_only: bool) -> dict[str, Any]:
        lines = log_lines(backend, "default", "a", LogFilter(), tail=9, read_only=read_only)
        return parts(lines)

    def watch(*, read_only: bool) -> Any:
        stream = producers.one_job(backend, "default", "a", read_only=read_only)
        history: Any = []
        while not history:
            history = parts(stream).get("history")
        return history

    async with asyncio.timeout(60):
        assert (await asyncio.to_thread(follow, read_only=True))["lines"][0][4] == "step 3/9 loss 0.5"
        assert (await asyncio.to_thread(watch, read_only=True))[0][1:] == (3, 0.5)
        assert api.count("PATCH", JOB) == 0
        await asyncio.to_thread(follow, read_only=False)
        while not api.count("PATCH", JOB):
            await asyncio.sleep(0.01)
    assert api.count("PATCH", JOB) == 1


def reads(api: FakeApi) -> list[str]:
    """The last parts of the paths that were read, without watches and logs; forgets them."""
    found = [
        path.rpartition("/")[2]
        for method, path, query in api.requests
        if method == "GET" and "watch" not in query and not path.endswith("/log")
    ]
    api.requests.clear()
    return sorted(found)


async def test_a_page_reads_a_job_and_its_pods_once_in_a_round_and_its_events_now_and_then(
    api: FakeApi, backend: ClusterBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The events are those of the whole namespace."""
    monkeypatch.setattr(pacing, "EVENT_SECONDS", 3600.0)
    await add_job(api)
    stream = producers.one_job(backend, "default", "a")
    found = await asyncio.to_thread(parts, stream)
    assert set(found) >= {"pods", "job", "events", "findings", "notes"}
    assert reads(api) == ["a", "events", "pods"]
    await asyncio.to_thread(parts, stream, rounds=2)
    assert reads(api) == ["a", "a", "pods", "pods"]
    watched = {path.rpartition("/")[2] for _, path, query in api.requests if "watch" in query}
    assert "events" not in watched, "the chart needs no events"


@pytest.mark.parametrize(
    "status",
    [
        {"state": {"phase": "Running"}, "controlledResources": {LIFECYCLE: "{"}},
        {"state": {"phase": "Running"}, "conditions": [{"status": "Sleeping"}]},
        {"state": {"phase": "Running"}, "runningDuration": "soon"},
    ],
)
async def test_a_job_whose_status_somebody_edited_does_not_hide_the_others(
    api: FakeApi, backend: ClusterBackend, status: dict[str, Any]
) -> None:
    await add_job(api, "job-0")
    await add_job(api, "job-1")
    edited = api.objects["jobs", "default", "job-0"]
    await api.put("jobs", "job-0", metadata=edited["metadata"], spec=edited["spec"], status=status)
    rows = await asyncio.to_thread(jobs.summaries, backend, "default")
    assert [(row["name"], row["phase"]) for row in rows] == [("job-0", "Running"), ("job-1", "Completed")]
    found = await asyncio.to_thread(backend.list, "default")
    listed = await asyncio.to_thread(select, list(found), False, ("Running",), None)
    assert [job.name for job, _, _ in listed] == ["job-0"]


async def test_the_list_reads_no_job_a_second_time(api: FakeApi, backend: ClusterBackend) -> None:
    for number in range(5):
        await add_job(api, f"job-{number}", phase="Running")
    found = await asyncio.to_thread(parts, producers.job_list(backend, None))
    assert [job["name"] for job in found["jobs"]] == [f"job-{number}" for number in range(5)]
    assert reads(api) == ["jobs"]


async def test_events_that_may_not_be_read_are_requested_now_and_then_too(
    api: FakeApi, backend: ClusterBackend
) -> None:
    await add_job(api)
    api.on_next("GET", "/events", refuse(403, "Forbidden"), times=9)
    stream = producers.one_job(backend, "default", "a")
    found = await asyncio.to_thread(parts, stream, rounds=3)
    assert len(found["missing"]) == 1 and "you may not list events" in found["missing"][0]
    assert reads(api).count("events") == 1


async def test_events_are_read_again_after_a_while(
    api: FakeApi, backend: ClusterBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "EVENT_SECONDS", 0.0)
    await add_job(api)
    await asyncio.to_thread(parts, producers.one_job(backend, "default", "a"), rounds=3)
    assert reads(api).count("events") == 3


@pytest.mark.parametrize("view", ["job", "list"])
async def test_a_cluster_that_answers_slowly_is_asked_less_often(
    api: FakeApi, backend: ClusterBackend, view: str
) -> None:
    await add_job(api)
    stream = producers.job_list(backend, None)
    if view == "job":
        stream = producers.one_job(backend, "default", "a")

    async def slowly(_: web.Request) -> None:
        await asyncio.sleep(0.3)

    api.on_next("GET", "/jobs", slowly)
    pause = await asyncio.to_thread(lambda: next(each for each in stream if isinstance(each, float)))
    assert pacing.SHARE * 0.3 <= pause <= pacing.LONGEST_PAUSE


async def test_a_job_that_is_over_is_read_less_often(
    api: FakeApi, backend: ClusterBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "SHARE", 0)
    await add_job(api, "over")
    await add_job(api, "running", phase="Running")

    def pause(name: str) -> float:
        return next(
            each
            for each in producers.one_job(backend, "default", name, read_only=True)
            if isinstance(each, float)
        )

    assert await asyncio.to_thread(pause, "over") == views.OVER_SECONDS
    assert await asyncio.to_thread(pause, "running") == views.JOB_SECONDS


async def test_who_may_list_one_namespace_only_sees_the_jobs_of_the_kubeconfigs(
    api: FakeApi, backend: ClusterBackend
) -> None:
    await add_job(api)
    api.on_next("GET", "/apis/batch.volcano.sh/v1alpha1/jobs", refuse(403, "Forbidden"), times=9)
    found = await asyncio.to_thread(parts, producers.job_list(backend, None), rounds=3)
    assert found["namespace"]["namespace"] == "default"
    assert "-n" in found["namespace"]["message"]
    assert [job["name"] for job in found["jobs"]] == ["a"]
    assert "trouble" not in found
    assert api.count("GET", "/v1alpha1/jobs") == 1, "a refusal is not repeated"


async def test_who_may_list_no_jobs_at_all_is_told_to_name_a_namespace(
    api: FakeApi, backend: ClusterBackend
) -> None:
    api.on_next("GET", "/jobs", refuse(403, "Forbidden"), times=9)
    event, trouble = await asyncio.to_thread(lambda: next(producers.job_list(backend, None)))  # type: ignore[misc]  # not a pause
    assert event == "trouble" and "-n NAMESPACE" in trouble["hint"]
    assert "in the namespace 'default'" in trouble["message"]
