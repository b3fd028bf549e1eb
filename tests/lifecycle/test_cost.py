"""One pod event costs the same at 100 pods and at 10,000: function calls are counted, no clock is read."""

from __future__ import annotations

import sys
from collections.abc import Callable

import msgspec
import pytest

from tests.lifecycle.simulation import START, job, task
from vcjob.lifecycle.decide import decide
from vcjob.lifecycle.observed import Observed
from vcjob.lifecycle.pod import Failure, PodFact
from vcjob.lifecycle.status import Status
from vcjob.lifecycle.step import CreatePods, KillPods

POLICIES = [
    {"event": "PodPending", "action": "AbortJob", "timeout": "1h"},
    {"event": "TaskFailed", "action": "RestartJob"},
    {"exitCode": 99, "action": "RestartJob"},
]


def calls(action: Callable[[], object]) -> int:
    count = 0

    def profile(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


class Big:
    """A job of `size` workers, all running but the last, which is pending."""

    def __init__(self, size: int) -> None:
        self.job = job(task("worker", size), policies=POLICIES, maxRetry=9)
        self.observed, self.now = Observed(), START
        self.status = decide(self.job, Status(), self.observed, START).status
        for index in range(size):
            phase = "Running" if index < size - 1 else "Pending"
            self.observed.put(PodFact("worker", index, f"u{index}", phase=phase, created=START, since=START))
        self.status = decide(self.job, self.status, self.observed, START).status
        self.last = size - 1

    def event(self, index: int, **changes: object) -> None:
        pod = self.observed.pods["worker", index, 0]
        self.observed.put(msgspec.structs.replace(pod, **changes))
        self.decision = decide(self.job, self.status, self.observed, self.now)
        self.status = self.decision.status


EVENTS = {
    "ready": {"ready": True},
    "succeeds": {"phase": "Succeeded"},
    "fails": {"phase": "Failed", "failure": Failure("main", 1)},
    "unknown": {"phase": "Unknown"},
    "restarts": {"restarts": 1},
    "evicted": {"terminating": True},
}


@pytest.mark.parametrize("changes", EVENTS.values(), ids=EVENTS.keys())
def test_the_work_for_one_pod_event_does_not_grow_with_the_job(changes):
    small, large = Big(100), Big(10_000)
    few, many = (calls(lambda big=big: big.event(50, **changes)) for big in (small, large))
    assert many <= few + 10
    assert few < 700


def test_the_hundredth_failure_costs_no_more_than_the_tenth():
    big = Big(10_000)
    costs = [
        calls(
            lambda index=index: big.event(index, phase="Failed", since=START + index, failure=Failure("m", 1))
        )
        for index in range(200)
    ]
    assert max(costs[100:]) <= max(costs[5:20]) + 40


def test_restarting_ten_thousand_pods_is_one_step_of_one_range():
    big = Big(10_000)
    cost = calls(lambda: big.event(3, phase="Failed", failure=Failure("main", 99)))
    kills = [step for step in big.decision.steps if isinstance(step, KillPods)]
    assert [(str(step.indexes), step.attempt) for step in kills] == [("0-9999", 0)]
    assert cost < 1500
    assert len(big.status.to_kube()["controlledResources"]["vcjob.io/lifecycle"]) < 1500


def test_creating_ten_thousand_pods_is_one_step_of_one_range():
    first = decide(job(task("worker", 10_000)), Status(), Observed(), START)
    assert [str(s.indexes) for s in first.steps if isinstance(s, CreatePods)] == ["0-9999"]
