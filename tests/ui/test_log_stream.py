"""The stream of a job's log: what is sent when it is opened, and where it continues."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcjob.errors import BackendError, Denied
from vcjob.lifecycle.status import Phase, State, Status
from vcjob.local.jobs.store import Store
from vcjob.local.logs.index import ContainerIndex
from vcjob.local.run.run_dir import RunConfig, RunDir
from vcjob.report.logs import Chunk, LogFilter, LogOrigin
from vcjob.report.podstate import ContainerState, Ended, PodState
from vcjob.sdk.local_backend import LocalBackend
from vcjob.ui import streams
from vcjob.ui.producers import log_stream
from vcjob.ui.streams import Produced


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VCJOB_HOME", str(tmp_path))


def finished_run(ranks: int, log: bytes) -> RunDir:
    """A run that is over, with the same log for each rank."""
    doc = {
        "metadata": {"name": "a", "namespace": "default", "uid": "u"},
        "spec": {"minAvailable": 1, "tasks": []},
    }
    run, lock = Store().create(doc, RunConfig(), "")
    os.close(lock)
    run.write_status(Status(state=State(Phase.COMPLETED)))
    container = ContainerState("main", "main", ended=Ended(0, "Completed", 1.0))
    run.write_pods(
        [
            PodState("worker", rank, f"worker-{rank}", f"p{rank}", rank=rank, containers=[container])
            for rank in range(ranks)
        ]
    )
    for rank in range(ranks):
        folder = Path(run.pod_folder(f"worker-{rank}", 0))
        folder.mkdir(parents=True)
        (folder / "main.0.out").write_bytes(log)
    return run


def backend_of(chunks: Callable[..., Iterator[Any]], *, name: str = "local") -> Mock:
    """A backend with one job, whose log is what `chunks` yields."""
    backend = Mock()
    job = backend.find.return_value
    job.log_chunks.side_effect, job.pods.return_value, job.uid, job.backend = chunks, [], "uid-of-a", name
    return backend


def chunk(text: str, *, rank: int = 0, at: float) -> Chunk:
    """Lines of a cluster, all of the same time."""
    origin = LogOrigin(rank=rank, task="w", index=rank, attempt=0, container="main", main=True, restart=0)
    return Chunk(origin, text.encode(), at)


def lines(produced: Iterable[Produced]) -> list[list[Any]]:
    return [line for each in produced if isinstance(each, tuple) and each[0] == "lines" for line in each[1]]


@pytest.mark.usefixtures("home")
def test_the_lines_of_all_ranks_together_are_bounded_when_a_log_is_opened() -> None:
    finished_run(200, b"".join(b"step %d\n" % number for number in range(1000)))
    sent = lines(log_stream.log_lines(LocalBackend(), "default", "a", LogFilter(), tail=5000))
    assert len(sent) == log_stream.MAX_EARLIER
    assert {line[4] for line in sent} == {f"step {number}" for number in range(750, 1000)}
    one = lines(log_stream.log_lines(LocalBackend(), "default", "a", LogFilter(ranks=(7,)), tail=5000))
    assert [line[4] for line in one] == [f"step {number}" for number in range(1000)]


def test_what_is_known_about_logs_that_are_not_shown_is_sent_once_and_bounded() -> None:
    def chunks(*_: object, on_note: Any, **__: object) -> Iterator[Any]:
        on_note("only 500 logs are followed")
        on_note("only 500 logs are followed")
        yield 0.5
        for number in range(1000):
            on_note(f"the log of rank {number} cannot be read")

    backend = backend_of(chunks)
    first, pause, *others = log_stream.log_lines(backend, "default", "a", LogFilter(), tail=None)
    assert first == ("note", {"message": "only 500 logs are followed"}) and pause == 0.5
    assert others[0] == ("note", {"message": "the log of rank 0 cannot be read"})
    assert others[-1] == ("end", {}) and len(others) == log_stream.MAX_NOTES


def test_a_message_is_bounded_by_its_characters_too() -> None:
    long, short = (
        [0, "worker-0", "main", "stdout", "x" * log_stream.MAX_LINE, "i", 1],
        [0, "worker-0", "main", "stdout", "x", "i", 1],
    )
    groups = list(log_stream.messages_of([long] * 200 + [short] * 1500))
    assert [line for group in groups for line in group] == [long] * 200 + [short] * 1500
    assert max(sum(len(line[4]) for line in group) for group in groups) < 2 * log_stream.MAX_CHARACTERS
    assert max(len(group) for group in groups) == log_stream.MAX_LINES


def test_a_log_that_breaks_off_continues_where_it_was_without_a_line_lost_or_repeated() -> None:
    """Two lines have the time of the newest one that was sent, and the clock of rank 1 is behind."""
    first = [chunk("one\n", at=10.0), chunk("two\nthree\n", at=11.0)]
    again = [*first[:-1], chunk("two\nthree\nfour\n", at=11.0), chunk("late\n", rank=1, at=10.5)]
    opened: list[dict[str, Any]] = []

    def chunks(*_: object, **options: Any) -> Iterator[Any]:
        opened.append(options)
        if len(opened) == 1:
            yield first
            raise BackendError("no answer", hint="wait")
        yield again

    sent = list(log_stream.log_lines(backend_of(chunks), "default", "a", LogFilter(), tail=100))
    assert [line[4] for line in lines(sent)] == ["one", "two", "three", "four", "late"]
    told = [each[1] for each in sent if isinstance(each, tuple) and each[0] == "trouble"]
    assert told == [{"message": "no answer", "hint": "wait"}, None]
    assert streams.TROUBLE_SECONDS in sent and sent[-1] == ("end", {})
    assert [options["since"] for options in opened] == [None, 11.0 - log_stream.OVERLAP_SECONDS]


@given(st.lists(st.integers(0, 4), max_size=12), st.data())
def test_lines_of_a_log_that_are_out_of_order_are_sent_once(times: list[int], data: st.DataObject) -> None:
    place, sent = log_stream.Place(), []
    cuts = data.draw(st.lists(st.integers(0, len(times)), max_size=4))
    for cut in [*cuts, len(times)]:
        place.reopen("u")
        sent += [
            number
            for number, at in enumerate(times[:cut])
            if place.takes([0, "w-0", "main", "", "x", "i", at])
        ]
    assert sent == sorted(set(sent))
    assert {number for number, at in enumerate(times) if at >= max(times[: number + 1])} <= set(sent)
    if not any(cuts):
        assert sent == list(range(len(times)))


def test_a_right_that_is_missing_ends_the_stream() -> None:
    def chunks(*_: object, **__: object) -> Iterator[Any]:
        yield from ()
        raise Denied("you may not read logs")

    with pytest.raises(Denied):
        list(log_stream.log_lines(backend_of(chunks), "default", "a", LogFilter(), tail=100))


def test_the_id_of_a_message_is_the_newest_time_but_none_in_the_future() -> None:
    def chunks(*_: object, **__: object) -> Iterator[Any]:
        yield [chunk("one\n", at=10.25)]
        yield [chunk("early\n", rank=1, at=9.0)]
        yield [chunk("of a clock that is ahead\n", rank=2, at=4e9)]

    sent = log_stream.log_lines(backend_of(chunks), "default", "a", LogFilter(), tail=100)
    ids = [each[2] for each in sent if isinstance(each, tuple) and len(each) == 3]
    assert ids[:2] == ["1970-01-01T00:00:10.250000Z"] * 2
    assert log_stream.moment_of(ids[0]) == 10.25
    assert abs(log_stream.moment_of(ids[2]) - time.time()) < 60


def test_while_the_logs_of_a_cluster_arrive_one_by_one_no_position_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log of rank 0 arrives before that of rank 1: a page that continued at its end would miss rank 1."""
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def chunks(*_: object, **__: object) -> Iterator[Any]:
        nonlocal now
        yield [chunk("one\n", at=10.0)]
        yield 0.1
        yield [chunk("one\n", rank=1, at=5.0)]
        now += log_stream.SETTLE_SECONDS
        yield 0.1
        yield 0.1

    sent = log_stream.log_lines(backend_of(chunks, name="cluster"), "default", "a", LogFilter(), tail=100)
    messages = [each for each in sent if isinstance(each, tuple)]
    assert [each[0] for each in messages] == ["lines", "lines", "position", "end"]
    assert [each[2] for each in messages if len(each) == 3] == ["", "", "1970-01-01T00:00:10.000000Z"]


def test_a_slow_page_has_no_position_before_the_lines_that_had_arrived(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes the log of rank 0 for longer than the logs need to arrive; that of rank 1 waits behind it."""
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def chunks(*_: object, **__: object) -> Iterator[Any]:
        nonlocal now
        yield [chunk("one\n", at=10.0)]
        now += log_stream.SETTLE_SECONDS
        yield [chunk("x" * log_stream.MANY_BYTES + "\n", at=11.0)]
        yield [chunk("one\n", rank=1, at=5.0)]
        yield [chunk("three\n", at=12.0)]

    sent = log_stream.log_lines(backend_of(chunks, name="cluster"), "default", "a", LogFilter(), tail=100)
    ids = [each[2] for each in sent if isinstance(each, tuple) and len(each) == 3]
    assert ids == ["", "", "", "1970-01-01T00:00:12.000000Z"], "also where the ranks never pause"


def test_a_page_that_continues_is_told_when_lines_between_are_left_out() -> None:
    def chunks(*_: object, tail: int, **__: object) -> Iterator[Any]:
        yield [chunk("x\n" * tail, at=10.0)]

    def notes(since: float | None) -> list[str]:
        sent = log_stream.log_lines(backend_of(chunks), "default", "a", LogFilter(), tail=30, since=since)
        return [each[1]["message"] for each in sent if isinstance(each, tuple) and each[0] == "note"]

    assert notes(None) == []
    assert notes(9.0) == ["only the newest 30 lines of each rank were sent again; some between are left out"]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("tail", [None, 7])
def test_the_position_of_a_line_of_this_machine_is_where_it_ends_in_its_file(tail: int | None) -> None:
    finished_run(1, b"".join(b"step %d\n" % number for number in range(10)) + b"unfinished")
    sent = lines(log_stream.log_lines(LocalBackend(), "default", "a", LogFilter(), tail=tail))
    assert {line[4]: line[6] for line in sent}["step 9"] == 70
    positions = [line[6] for line in sent]
    assert positions == sorted(set(positions)) and positions[-1] in (70, 80)
    assert {line[5] for line in sent} == {"u.0.0"}


@pytest.mark.usefixtures("home")
def test_a_page_that_continues_gets_the_end_of_a_container_that_has_restarted_meanwhile() -> None:
    run = finished_run(1, b"")
    folder = Path(run.pod_folder("worker-0", 0))
    container = ContainerState("main", "main", restarts=1, ended=Ended(0, "Completed", 1.0))
    run.write_pods([PodState("worker", 0, "worker-0", "p0", rank=0, containers=[container])])
    for number, parts in enumerate((["sent\n", "the end\n"], ["again\n"])):
        log = folder / f"main.{number}.out"
        log.write_text("".join(parts))
        index, size = ContainerIndex([str(log)]), 0
        for place, part in enumerate(parts):
            size += len(part)
            index.received(0, size, 1000.0 + 20 * number + 10 * place)
        index.close()

    def texts(chosen: LogFilter, since: float | None) -> list[str]:
        return [
            line[4]
            for line in lines(
                log_stream.log_lines(LocalBackend(), "default", "a", chosen, tail=9, since=since)
            )
        ]

    assert texts(LogFilter(), None) == ["again"]
    assert texts(LogFilter(), 1005.0) == ["the end", "again"]
    assert texts(LogFilter(previous=True), 1005.0) == ["the end"]


@pytest.mark.usefixtures("home")
def test_a_page_continues_after_the_newest_time_that_it_has() -> None:
    run = finished_run(1, b"")
    path = str(Path(run.pod_folder("worker-0", 0), "main.0.out"))
    index, text = ContainerIndex([path]), b""
    for number in range(5):
        text += b"step %d\n" % number
        index.received(0, len(text), 1000.0 + 10 * number)
    index.close()
    Path(path).write_bytes(text)
    sent = list(log_stream.log_lines(LocalBackend(), "default", "a", LogFilter(), tail=9, since=1020.0))
    assert [line[4] for line in lines(sent)] == ["step 2", "step 3", "step 4"]
