"""The progress of a job on a cluster: written by whoever follows it, at a bounded rate, and shown while it is fresh."""

from __future__ import annotations

from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, cast

import pytest

from vcjob.cluster.client.jobs import JobKey
from vcjob.errors import BackendError
from vcjob.report.logs import Chunk, LogOrigin
from vcjob.sdk.cluster.connection import ClusterConnection
from vcjob.sdk.cluster.progress import ProgressWriter, written_progress
from vcjob.wellknown.annotations import PROGRESS


class Connection:
    """Records annotations instead of writing them; `error` refuses them."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.error: BackendError | None = None
        self.jobs = self.loop = self

    async def annotate(self, key: JobKey, annotation: str, value: str) -> None:
        assert annotation == PROGRESS
        self.written.append(value)
        if self.error is not None:
            raise self.error

    def start(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        done: Future[None] = Future()
        try:
            work.send(None)
        except StopIteration:
            done.set_result(None)
        except BackendError as error:
            done.set_exception(error)
        return done


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("vcjob.sdk.cluster.progress.time.time", lambda: now[0])
    return now


def line(step: int, rank: int = 0, *, main: bool = True) -> Chunk:
    origin = LogOrigin(rank=rank, task="master", index=0, attempt=0, container="c", main=main, restart=0)
    return Chunk(origin, f"step {step}/100 loss: 0.5\n".encode(), None)


def writer(connection: Connection) -> ProgressWriter:
    return ProgressWriter(cast(ClusterConnection, connection), JobKey("j", "n", "u"))


def test_it_is_written_at_most_every_ten_seconds(clock: list[float]) -> None:
    connection = Connection()
    writes = writer(connection)
    for second in range(25):
        clock[0] = 1000.0 + second
        writes.feed([line(second)])
    assert len(connection.written) == 3
    shown = written_progress({"metadata": {"annotations": {PROGRESS: connection.written[-1]}}}, clock[0])
    assert shown is not None and (shown.step, shown.percent) == (20, 20.0)


def test_only_the_container_of_rank_0_counts(clock: list[float]) -> None:
    connection = Connection()
    writer(connection).feed([line(1, rank=1), line(2, main=False)])
    assert connection.written == []


def test_without_the_right_to_patch_jobs_it_is_silent(clock: list[float]) -> None:
    connection = Connection()
    connection.error = BackendError("you may not patch Jobs")
    writes = writer(connection)
    for second in (0, 20, 40):
        clock[0] = 1000.0 + second
        writes.feed([line(second)])
    assert len(connection.written) == 1


@pytest.mark.parametrize("text", ["", "not json", "[]", '{"step": "many"}', '{"step": 5, "at": 100.0}'])
def test_what_is_absent_damaged_or_old_is_not_shown(text: str) -> None:
    assert written_progress({"metadata": {"annotations": {PROGRESS: text}}}, 1000.0) is None
    assert written_progress({"metadata": {}}, 1000.0) is None
