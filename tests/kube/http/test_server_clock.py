"""The cluster's time of day, and when it replaces the local clock."""

from __future__ import annotations

import pytest

from tests.kube.fake_api import FakeApi
from vcjob.kube.api.client import Client
from vcjob.kube.config.auth import Fixed
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.http.server_clock import SLACK_SECONDS, ServerClock

DATE, EPOCH = b"Sun, 15 Nov 2026 13:00:00 GMT", 1794747600.0


class Hands:
    def __init__(self) -> None:
        self.wall, self.steady = EPOCH, 100.0
        self.clock = ServerClock(lambda: self.wall, lambda: self.steady)


def test_without_a_response_the_local_clock_is_used() -> None:
    assert Hands().clock.now() == EPOCH


@pytest.mark.parametrize("off", [0.0, 2.0, -2.0])
def test_a_small_difference_is_ignored(off: float) -> None:
    hands = Hands()
    hands.clock.note(DATE)
    hands.wall += off
    assert hands.clock.now() == hands.wall


@pytest.mark.parametrize("jump", [3600.0, -7200.0, SLACK_SECONDS + 1])
def test_the_servers_clock_is_used_when_the_local_clock_jumps(jump: float) -> None:
    hands = Hands()
    hands.clock.note(DATE)
    hands.wall, hands.steady = EPOCH + 10 + jump, hands.steady + 10
    assert hands.clock.now() == pytest.approx(EPOCH + 10, abs=1)
    hands.wall -= jump
    assert hands.clock.now() == hands.wall


@pytest.mark.parametrize("date", [b"", b"tomorrow", b"\xff"])
def test_an_invalid_date_is_ignored(date: bytes) -> None:
    hands = Hands()
    hands.clock.note(date)
    hands.wall += 9999
    assert hands.clock.now() == hands.wall


async def test_every_response_updates_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    async with FakeApi() as api, Client(ClusterConfig(server=api.url, source=Fixed())) as client:
        await client.version()
        true_time = time.time()
        monkeypatch.setattr(time, "time", lambda: true_time + 7200)
        assert client.now() == pytest.approx(true_time, abs=5)
