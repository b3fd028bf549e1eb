"""Ctrl-C while several jobs are followed."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import cast

import pytest

from vcjob import Handle, Interrupted
from vcjob.cli.output.follow import Interrupts, follow
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


def test_the_second_interrupt_ends_every_job_before_it_leaves() -> None:
    jobs = [SlowJob("one"), SlowJob("two")]
    interrupts = Interrupts()
    interrupts.count = 2
    with pytest.raises(Interrupted, match="still ending the job 'one'"):
        follow([(cast(Handle, job), job.name) for job in jobs], interrupts, "table")
    assert [job.stops for job in jobs] == [[False, True], [False, True]]
