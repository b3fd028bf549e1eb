"""The cost of decisions, in function calls: constant for one pod event, linear in tasks, Commands and pods."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from tests.admission.expensive_jobs import long_timeouts
from tests.counting import calls
from tests.lifecycle.simulation import START, job, task
from vcjob.admission import limits
from vcjob.lifecycle.decide import decide
from vcjob.lifecycle.decision import Decision
from vcjob.lifecycle.indexset import IndexSet
from vcjob.lifecycle.observed import Command, Observed
from vcjob.lifecycle.pod import Failure, PodFact, PodPhase
from vcjob.lifecycle.rules import TaskRules
from vcjob.lifecycle.status import Status
from vcjob.lifecycle.step import CreatePods, DeleteCommand, KillPods
from vcjob.spec.job import Job, PartitionPolicy, Task
from vcjob.wellknown.annotations import LIFECYCLE

POLICIES = [
    {"event": "PodPending", "action": "AbortJob", "timeout": "1h"},
    {"event": "TaskFailed", "action": "RestartJob"},
    {"exitCode": 99, "action": "RestartJob"},
]


class Big:
    """A job of `size` workers, all running but the last, which is pending."""

    def __init__(self, size: int) -> None:
        self.job = job(task("worker", size), policies=POLICIES, maxRetry=9)
        self.observed, self.now = Observed(), START
        self.status = decide(self.job, Status(), self.observed, START).status
        for index in range(size):
            phase: PodPhase = "Running" if index < size - 1 else "Pending"
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
def test_the_work_for_one_pod_event_does_not_grow_with_the_job(changes: dict[str, Any]) -> None:
    small, large = Big(100), Big(10_000)
    few, many = (calls(partial(big.event, 50, **changes)) for big in (small, large))
    assert many <= few + 10
    assert few < 700


def test_the_hundredth_failure_costs_no_more_than_the_tenth() -> None:
    big = Big(10_000)
    costs = [
        calls(partial(big.event, index, phase="Failed", since=START + index, failure=Failure("m", 1)))
        for index in range(200)
    ]
    assert max(costs[100:]) <= max(costs[5:20]) + 40


def test_restarting_ten_thousand_pods_is_one_step_of_one_range() -> None:
    big = Big(10_000)
    cost = calls(lambda: big.event(3, phase="Failed", failure=Failure("main", 99)))
    kills = [step for step in big.decision.steps if isinstance(step, KillPods)]
    assert [(str(step.indexes), step.attempt) for step in kills] == [("0-9999", 0)]
    assert cost < 1500
    assert len(big.status.to_kube()["controlledResources"]["vcjob.io/lifecycle"]) < 1500


def test_creating_ten_thousand_pods_is_one_step_of_one_range() -> None:
    first = decide(job(task("worker", 10_000)), Status(), Observed(), START)
    assert [str(s.indexes) for s in first.steps if isinstance(s, CreatePods)] == ["0-9999"]


SIZES = (10, 100, 1_000, 10_000)


def exponent(counts: list[int]) -> float:
    """The slope of a line through log(count) over log(size): 1 is linear."""
    xs, ys = [math.log(size) for size in SIZES], [math.log(count) for count in counts]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys))
    return covariance / sum((x - mean_x) ** 2 for x in xs)


def chain_of_tasks(size: int) -> Job:
    tasks = [task("t0", 1)]
    tasks += [task(f"t{n}", 1, dependsOn={"name": [f"t{n - 1}"]}) for n in range(1, size)]
    return job(*reversed(tasks))


def layers_of_tasks(size: int) -> Job:
    layers = [[f"l{layer}-{place}" for place in range(5)] for layer in range(size // 5)]
    tasks = [task(name, 1) for name in layers[0]]
    for below, layer in itertools.pairwise(layers):
        tasks += [task(name, 1, dependsOn={"name": below, "iteration": "any"}) for name in layer]
    return job(*reversed(tasks))


def tasks_alone(size: int) -> Job:
    return job(*(task(f"t{n}", 1) for n in range(size)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "phase"),
    [
        (chain_of_tasks, "Failed"),
        (layers_of_tasks, "Succeeded"),
        (layers_of_tasks, "Failed"),
        (tasks_alone, "Running"),
        (tasks_alone, "Failed"),
        (tasks_alone, "gone"),
    ],
)
def test_the_work_grows_no_faster_than_the_tasks(
    make: Callable[[int], Job], phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first decision, and one after all pods that it created have changed, in every task."""
    for limit in (
        "MAX_TASKS",
        "MAX_DEPENDENCIES",
        "MAX_BYTES",
        "MAX_STORED",
    ):  # a Job above them is not decided about
        monkeypatch.setattr(limits, limit, 10**9)
    counts = []
    for size in SIZES:
        the_job, observed, status = make(size), Observed(), Status()

        def decide_once(now: float) -> Decision:
            nonlocal status
            decision = decide(the_job, status, observed, now)
            status = decision.status
            return decision

        count = calls(partial(decide_once, START))
        for step in decide_once(START).steps:
            if isinstance(step, CreatePods):
                observed.put(PodFact(step.task, 0, step.task, ready=True))
        decide_once(START)
        assert observed.pods
        for pod in list(observed.pods.values()):
            if phase == "gone":
                observed.drop(pod.uid)
            else:
                observed.put(msgspec.structs.replace(pod, phase=phase, since=START))
        counts.append(count + calls(partial(decide_once, START + 1)))
    assert exponent(counts) <= 1.1, counts


@pytest.mark.slow
@pytest.mark.parametrize("actions", [("Dance",), ("RestartJob",), ("AbortJob", "ResumeJob")])
def test_the_work_grows_no_faster_than_the_commands(actions: tuple[str, ...]) -> None:
    counts = []
    for size in SIZES:
        the_job, observed, status = job(maxRetry=5), Observed(), Status()
        for number in range(size):
            observed.commands[f"c{number}"] = Command(f"c{number}", actions[number % len(actions)])

        def execute_all() -> None:
            nonlocal status
            while observed.commands:
                decision = decide(the_job, status, observed, START)
                status = decision.status
                for step in decision.steps:
                    if isinstance(step, DeleteCommand):
                        del observed.commands[step.uid]

        counts.append(calls(execute_all))
    assert exponent(counts) <= 1.1, counts


def cpu_seconds(action: Callable[[], object]) -> float:
    """The CPU time of this thread, the least of three: it also sees the work inside one call of C, such as a regex."""
    found = []
    for _ in range(3):
        began = time.thread_time()
        action()
        found.append(time.thread_time() - began)
    return min(found)


@pytest.mark.parametrize("parts", [100, 100_000])
def test_a_long_timeout_costs_nothing_in_a_decision(parts: int) -> None:
    """A stored Job may have one that admission refuses. It was read again for each event: 4 s for each decision."""
    short, long = (Job(long_timeouts(size)) for size in (1, parts))

    def decided(the_job: Job) -> Callable[[], object]:
        observed = Observed()
        for number in range(20):
            observed.put(PodFact(f"t{number}", 0, f"u{number}", created=START))
        status = decide(the_job, Status(), observed, START - 1).status
        return lambda: decide(the_job, status, observed, START - 1)

    assert cpu_seconds(decided(long)) <= 5 * cpu_seconds(decided(short)) + 0.02


def test_one_decision_executes_a_bounded_number_of_commands() -> None:
    counts = []
    for size in (1_000, 10_000):
        observed = Observed()
        observed.commands = {f"c{n}": Command(f"c{n}", "ResumeJob") for n in range(size)}
        counts.append(calls(lambda: decide(job(), Status(), observed, START)))
    assert counts[1] <= counts[0] + 20


def test_the_work_grows_no_faster_than_the_pods() -> None:
    counts = []
    for size in SIZES:
        the_job, observed = job(task("worker", size), policies=POLICIES), Observed()
        status = decide(the_job, Status(), observed, START).status

        def all_pods() -> None:
            nonlocal status
            for phase in ("Running", "Succeeded"):
                for index in range(size):
                    observed.put(PodFact("worker", index, f"u{index}", phase=phase, since=START + index))
                status = decide(the_job, status, observed, START + size).status

        counts.append(calls(all_pods))
        assert status.phase == "Completed"
    assert exponent(counts) <= 1.1, counts


def pods_on_attempts(size: int) -> Observed:
    """Pods that somebody has made by hand, each on another attempt."""
    observed = Observed()
    for number in range(size):
        observed.put(PodFact("worker", number, f"u{number}", attempt=number + 1, created=START))
    return observed


@pytest.mark.slow
def test_the_work_grows_no_faster_than_the_distinct_attempts_of_pods() -> None:
    counts, seconds = [], []
    for size in SIZES:
        the_job, observed = job(task("worker", 2 * size)), pods_on_attempts(size)
        status = decide(the_job, Status(), Observed(), START).status
        counts.append(calls(lambda: decide(the_job, status, observed, START)))
        status = decide(the_job, status, observed, START).status
        counts[-1] += calls(lambda: decide(the_job, status, observed, START))
        assert len(status.memory("worker").attempts.groups) <= 101
        if size <= 2_000:
            seconds.append(cpu_seconds(lambda: decide(the_job, Status(), observed, START)))
    assert exponent(counts) <= 1.1, counts
    assert seconds[-1] <= 60 * seconds[-2] + 0.05, seconds  # ten times as many attempts; 2.98 s before


def test_the_work_grows_no_faster_than_the_distinct_attempts_of_an_edited_status() -> None:
    counts = []
    for size in (10, 100, 1_000):
        attempts = {str(attempt): str(3 * attempt) for attempt in range(1, size)}
        own = {"tasks": {"worker": {"attempts": attempts, "seen": f"0-{4 * size}"}}, "shape": "x", "since": 1}
        document = {"controlledResources": {LIFECYCLE: json.dumps(own)}, "state": {"phase": "Running"}}
        status, the_job = Status.from_kube(document), job(task("worker", 4 * size))
        observed = Observed()
        for index in range(size):
            observed.put(PodFact("worker", index, f"u{index}", phase="Running", created=START))
        counts.append(calls(lambda: decide(the_job, status, observed, START)))
    assert counts[2] <= 12 * counts[1] <= 144 * counts[0], counts


def test_the_hundredth_delayed_eviction_among_hundreds_of_policies_costs_no_more_than_the_tenth() -> None:
    """Each delayed eviction was compared with every policy in front of the one that matches, in each decision."""
    codes = [{"exitCode": code, "action": "RestartJob", "timeout": "99h"} for code in range(1, 256)]
    last = {"event": "PodEvicted", "action": "RestartJob", "timeout": "99h"}
    size = 500
    the_job = job(task("worker", size, policies=codes), policies=[*codes, last])
    observed, costs = Observed(), []
    for index in range(size):
        observed.put(PodFact("worker", index, f"u{index}", phase="Running", created=START))
    decisions = [decide(the_job, Status(), observed, START)]
    status = decisions[0].status
    for index in range(size):
        observed.drop(f"u{index}")
        costs.append(calls(lambda: decisions.append(decide(the_job, status, observed, START + index))))
        status = decisions[-1].status
        observed.put(PodFact("worker", index, f"v{index}", attempt=1, created=START + index))
    evictions = status.memory("worker").evictions
    assert len(evictions) == 100
    assert sum(len(eviction.indexes) for eviction in evictions) == size
    assert max(costs) < 30_000  # a hundred events; 100,000 comparisons before
    assert max(costs[300:]) <= 1.2 * max(costs[100:200])


@pytest.mark.parametrize("size", [1, 2, 5])
def test_restarting_all_partitions_costs_what_restarting_one_costs_per_pod(size: int) -> None:
    """Each partition was a set as long as the task: 2.4 s at 150,000 pods. Counted calls do not see that."""

    def cost(pods: int) -> float:
        partitions = PartitionPolicy(partition_size=size)
        rules = TaskRules(Task("worker", pods, partition_policy=partitions), None)
        every_other = IndexSet.parse(",".join(str(index) for index in range(0, pods, 2)))
        return cpu_seconds(lambda: rules.partitions(every_other))

    assert cost(100_000) <= 40 * cost(10_000)
