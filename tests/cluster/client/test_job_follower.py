"""Following a Job of a cluster: what remains when the follower is cancelled."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from vcjob.cluster.client.job_follower import JobFollower


class WithoutNews(JobFollower):
    """A follower whose watches are open and bring nothing."""

    async def _watch_job(self) -> None:
        await asyncio.Event().wait()

    _watch_pods = _watch_job
    _watch_events = _watch_job


class _Sink:
    def wake(self) -> None:
        pass


def test_a_cancelled_follower_leaves_no_task() -> None:
    async def follow() -> int:
        nothing = cast("Any", None)
        follower = WithoutNews(nothing, nothing, nothing, cast("Any", _Sink()))
        running = asyncio.create_task(follower.run())
        while len(asyncio.all_tasks()) < 6:  # this one, the follower, three watches, and the wait for news
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running})
        return len(asyncio.all_tasks())

    assert asyncio.run(asyncio.wait_for(follow(), 30)) <= 2  # this one, and the one of the time limit
