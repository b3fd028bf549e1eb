"""The pods of a run as its supervisor keeps them."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Callable
from typing import Any, cast

import pytest

from vcjob.local.machine.loop import Loop
from vcjob.local.pod.shim import ShimHandle
from vcjob.local.supervisor.pods import Pods, rank_of


class _Timers:
    """A loop of which only the timers are used; the test calls them."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def after(self, _seconds: float, call: Callable[[], None]) -> None:
        self.calls.append(call)


def test_a_shim_that_was_reaped_before_its_end_is_reported_does_not_prevent_the_kill_of_others() -> None:
    timers, none = _Timers(), cast("Any", None)
    pods = Pods(
        none, none, cast("Loop", timers), none, none,
        launcher=none, changed=none, noted=none, output_lost=none, gone=none, close_in_shim=none,
    )  # fmt: skip
    reaped = subprocess.Popen(["true"])
    reaped.wait()
    with subprocess.Popen(["sleep", "600"]) as stuck:
        for index, process in enumerate((reaped, stuck)):
            ours, theirs = socket.socketpair()
            theirs.close()
            pods._shims["a", index, 0] = ShimHandle(process.pid, ours, "")
        pods.kill_now()
        try:
            for call in timers.calls:
                call()
        except ProcessLookupError:
            stuck.terminate()
        assert stuck.wait() == -signal.SIGKILL
    for shim in pods._shims.values():
        shim.close()


@pytest.mark.parametrize(("value", "rank"), [("3", 3), ("²", None), ("-1", None), ("9" * 5000, None)])
def test_a_rank_of_the_user_that_is_no_number_is_none(value: str, rank: int | None) -> None:
    assert rank_of({"spec": {"containers": [{"env": [{"name": "RANK", "value": value}]}]}}) == rank
