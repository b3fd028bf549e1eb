"""What is shown while jobs are followed, and Ctrl-C."""

from __future__ import annotations

import io
from contextlib import AbstractContextManager, nullcontext
from typing import cast

import pytest

from vcjob import Handle, Interrupted
from vcjob.cli.output.follow import FollowedJob, Interrupts, follow
from vcjob.cli.output.screen import Screen
from vcjob.errors import BackendError
from vcjob.lifecycle.status import Phase, State, Status
from vcjob.report.logs import Chunk
from vcjob.report.podstate import PodState


class Running:
    """A follower of a job that never ends."""

    status = Status(state=State(Phase.RUNNING, "", ""))
    ended = False

    def __init__(self) -> None:
        self.pods: list[PodState] = []

    def poll(self) -> list[Chunk]:
        return []

    def has_trouble(self) -> bool:
        return False

    def wait(self) -> None: ...

    def close(self) -> None: ...


class SlowJob:
    """A job on a cluster that does not end while the test runs."""

    ends_at_once = False
    namespace = "default"

    def __init__(self, name: str) -> None:
        self.name = name
        self.stops: list[bool] = []

    def watching(self) -> AbstractContextManager[None]:
        return nullcontext()

    def follow(self) -> Running:
        return Running()

    def notes(self) -> list[str]:
        return []

    def discard_unserved(self) -> bool:
        return False

    def wait_for_command(self) -> None: ...

    def stop(self, *, now: bool) -> None:
        self.stops.append(now)


class Failed(Running):
    """A follower of a job that has failed before it was first asked."""

    status = Status(state=State(Phase.FAILED, "", ""))
    ended = False

    def poll(self) -> list[Chunk]:
        self.ended = True
        return []


def test_notes_are_shown_before_the_end_of_a_short_job(monkeypatch: pytest.MonkeyPatch) -> None:
    job, shown = SlowJob("train"), io.StringIO()
    monkeypatch.setattr(job, "follow", Failed)
    monkeypatch.setattr(job, "notes", lambda: ["port 23456 is in use here"])
    FollowedJob(cast(Handle, job), "train", Screen("train", shown, shown)).step()
    assert shown.getvalue() == "vcjob: note: port 23456 is in use here\nvcjob: train Failed\n"


def test_the_second_interrupt_ends_every_job_before_it_leaves() -> None:
    jobs = [SlowJob("one"), SlowJob("two")]
    interrupts = Interrupts()
    interrupts.count = 2
    with pytest.raises(Interrupted, match="still ending the job 'one'"):
        follow([(cast(Handle, job), job.name) for job in jobs], interrupts, "table")
    assert [job.stops for job in jobs] == [[False, True], [False, True]]


@pytest.mark.parametrize("number", [1, 2])
def test_a_job_that_cannot_be_ended_does_not_keep_the_others_from_it(number: int) -> None:
    class Unreachable(SlowJob):
        def stop(self, *, now: bool) -> None:
            raise BackendError(f"the job {self.name!r} cannot be reached")

    jobs = [SlowJob("one"), Unreachable("two"), Unreachable("three"), SlowJob("four")]
    interrupts = Interrupts()
    interrupts.count = number
    with pytest.raises(BackendError, match="the job 'two' cannot be reached"):
        follow([(cast(Handle, job), job.name) for job in jobs], interrupts, "table")
    assert [job.stops for job in jobs] == [[False], [], [], [False]]
