"""The cause of a failure on the Job: read from logs, bounded, and never at the cost of the Job's life cycle."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.controller.harness import Harness
from tests.cluster.controller.jobs import job, task, trio
from tests.cluster.controller.pods import ended
from tests.counting import calls
from vcjob.cluster.controller import failure_logs
from vcjob.kube.errors import ApiError, Forbidden, Unreachable
from vcjob.lifecycle.decide import decide
from vcjob.lifecycle.decision import Decision

RECORDINGS = Path(__file__).parents[2] / "diagnosis" / "recordings"
_STAMP = "2026-01-01T00:00:0{}.5Z "
RAISED = [
    _STAMP.format(1) + line
    for line in (
        "epoch 1",
        "Traceback (most recent call last):",
        '  File "/train.py", line 3, in <module>',
        "ValueError: loss is NaN",
    )
]
COMPLAINED = [
    _STAMP.format(2) + line
    for line in (
        "Traceback (most recent call last):",
        '  File "/train.py", line 9, in <module>',
        "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer",
    )
]


async def started(**spec: Any) -> Harness:
    harness = Harness(trio("j", **spec), failure_logs=True, status_delay=0.0)
    await harness.reconcile()
    for pod in harness.pods():
        harness.show(pod, "Running")
    await harness.reconcile()
    return harness


async def reconcile(harness: Harness) -> None:
    """As the workers do: the Job is reconciled again once its logs are read."""
    await harness.reconcile()
    await harness.reconciler.failure_logs.settle()
    await harness.reconcile()


def fail(harness: Harness, pod: str, code: int = 1, second: int = 3) -> None:
    harness.show(pod, "Failed", containerStatuses=[ended("main", code, second)])


def finished(coroutine: Coroutine[Any, Any, Decision]) -> Decision:
    """The result of one that does not suspend."""
    with pytest.raises(StopIteration) as end:
        coroutine.send(None)
    found: Decision = end.value.value
    return found


async def events(harness: Harness) -> list[tuple[str, str]]:
    await harness.events.drain()
    found = [doc for (plural, _), doc in harness.api.objects.items() if plural == "events"]
    return [(event["reason"], event["message"]) for event in found]


async def test_the_exception_of_a_rank_is_in_the_jobs_message_and_an_event() -> None:
    harness = await started()
    harness.api.log_lines["j-worker-0"] = RAISED
    fail(harness, "j-worker-0")
    await reconcile(harness)
    state = harness.stored["state"]
    assert (state["phase"], state["reason"]) == ("Failed", "RankFailed")
    said = "container main exited with code 1; ValueError: loss is NaN (/train.py:3 in <module>)"
    assert state["message"] == f"rank 1 (worker-0) failed: {said}"
    found = await events(harness)
    assert ("RankFailed", f"Failed: {state['message']}") in found
    assert ("Exception", "rank 1 raised ValueError: loss is NaN (/train.py:3 in <module>)") in found


async def test_a_rank_that_raised_and_exits_slowly_is_named_instead_of_the_peer_that_lost_it() -> None:
    harness = await started()
    harness.api.log_lines |= {"j-worker-0": RAISED, "j-worker-1": COMPLAINED}
    fail(harness, "j-worker-1")
    await reconcile(harness)
    assert harness.stored["state"]["message"].startswith("rank 1 (worker-0) failed: ValueError: loss is NaN")


async def test_a_rank_that_lost_a_worker_of_its_data_loader_and_exits_slowly_is_named() -> None:
    """The last exception says only that the worker has gone; the one before it says why, and is the one that is named."""
    recorded = (RECORDINGS / "loader_killed.txt").read_text().splitlines()
    harness = await started()
    harness.api.log_lines |= {
        "j-worker-0": [_STAMP.format(1) + line for line in recorded],
        "j-worker-1": COMPLAINED,
    }
    fail(harness, "j-worker-1")
    await reconcile(harness)
    message = harness.stored["state"]["message"]
    assert message.startswith(
        "rank 1 (worker-0) failed: RuntimeError: DataLoader worker (pid 18361) is killed"
    )


async def test_a_running_rank_that_handled_its_exception_is_not_blamed() -> None:
    harness = await started()
    handled = [*RAISED, _STAMP.format(1) + "recovered, epoch 2"]
    harness.api.log_lines |= {"j-worker-0": handled, "j-worker-1": COMPLAINED}
    fail(harness, "j-worker-1")
    await reconcile(harness)
    assert harness.stored["state"]["message"].startswith("rank 2 (worker-1) failed")


async def test_a_rank_that_ended_with_0_before_the_others_is_named() -> None:
    harness = await started()
    harness.api.log_lines["j-worker-1"] = COMPLAINED
    harness.show("j-worker-0", "Succeeded", containerStatuses=[ended("main", 0, 1)])
    fail(harness, "j-worker-1")
    await reconcile(harness)
    assert "rank 1 (worker-0) failed: ended with exit code 0" in harness.stored["state"]["message"]
    assert "RankExitedEarly" in {reason for reason, _ in await events(harness)}


@pytest.mark.parametrize("error", [Forbidden(403, server_message="no"), Unreachable("gone")])
async def test_an_api_failure_loses_only_the_lines(error: ApiError | Unreachable) -> None:
    harness = await started()
    harness.api.refuse = lambda verb, plural, name: error if plural == "pods/log" else None
    fail(harness, "j-worker-0", 3)
    await reconcile(harness)
    state = harness.stored["state"]
    assert (state["phase"], state["message"]) == (
        "Failed",
        "rank 1 (worker-0) failed: container main exited with code 3",
    )


async def test_a_log_that_does_not_come_holds_the_job_up_for_seconds_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failure_logs, "SECONDS", 0.01)
    harness = await started()
    harness.api.may_read.clear()
    fail(harness, "j-worker-0")
    await harness.reconcile()
    assert harness.stored["state"]["phase"] == "Running", "the decision waits, and no worker does"
    await harness.reconciler.failure_logs.settle()
    await harness.reconcile()
    assert harness.stored["state"]["phase"] == "Failed"


@pytest.mark.parametrize("step", [0, 3], ids=["before the log is read", "while it is read"])
async def test_a_job_that_is_deleted_while_its_logs_are_read_needs_them_no_more(step: int) -> None:
    harness = await started()
    harness.api.log_lines["j-worker-1"] = COMPLAINED
    harness.api.may_read.clear()
    fail(harness, "j-worker-1")
    await harness.reconcile()
    for _ in range(step):  # turns of the loop
        await asyncio.sleep(0)
    harness.delete_job()
    harness.api.may_read.set()
    await harness.reconciler.failure_logs.settle()
    await harness.reconcile()
    assert "j-worker-0" not in harness.pods(), "it ran, and is deleted"


async def test_of_a_thousand_failed_pods_a_few_logs_are_read() -> None:
    harness = Harness(job("j", task("a", 1000)), failure_logs=True, status_delay=0.0, creation_chunk=1000)
    await harness.reconcile()
    for pod in harness.pods():
        fail(harness, pod, code=1 + hash(pod) % 40)
    await reconcile(harness)
    assert harness.stored["state"]["phase"] == "Failed"
    assert 0 < harness.api.requests["get", "pods/log"] <= failure_logs.MOST_FAILED


async def test_the_cost_of_an_explanation_does_not_grow_with_the_ranks_that_succeeded() -> None:
    async def cost(size: int) -> int:
        spec = job("j", task("master", 1), task("worker", size), plugins={"pytorch": []})
        harness = Harness(spec, failure_logs=True, status_delay=0.0, creation_chunk=size + 1)
        await harness.reconcile()
        for index in range(1, size):
            second = 1 if index == size // 2 else 2
            harness.show(f"j-worker-{index}", "Succeeded", containerStatuses=[ended("main", 0, second)])
        harness.api.log_lines["j-worker-0"] = COMPLAINED
        fail(harness, "j-worker-0")
        await harness.reconcile()
        await harness.reconciler.failure_logs.settle()
        state, logs = harness.state, harness.reconciler.failure_logs
        decision = decide(*state.current(), state.observed, time.time())
        explained = []
        made = calls(lambda: explained.append(finished(logs.explain(state, decision, time.time()))))
        assert f"worker-{size // 2}" in explained[0].status.state.message, "the first that left"
        return made

    assert await cost(50) <= await cost(10) + 20


async def test_long_logs_are_searched_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen logs of 200 KB without a line break that helps hold a thread for a tenth of a second."""
    searched: list[int] = []
    explain, complain = failure_logs._explained_by_logs, failure_logs._only_complaints

    def explained(*arguments: Any) -> Any:
        searched.append(threading.get_ident())
        return explain(*arguments)

    def complaints(*arguments: Any) -> Any:
        searched.append(threading.get_ident())
        return complain(*arguments)

    monkeypatch.setattr(failure_logs, "_explained_by_logs", explained)
    monkeypatch.setattr(failure_logs, "_only_complaints", complaints)
    harness = await started()
    harness.api.log_lines["j-worker-0"] = [_STAMP.format(1) + "size" * 500] * 100
    fail(harness, "j-worker-0")
    await reconcile(harness)
    assert harness.stored["state"]["phase"] == "Failed"
    assert len(searched) == 2 and threading.get_ident() not in searched


async def test_a_job_that_is_deleted_while_its_logs_are_searched_gets_no_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entered, release = threading.Event(), threading.Event()
    explain = failure_logs._explained_by_logs

    def explained(*arguments: Any) -> Any:
        entered.set()
        assert release.wait(30)
        return explain(*arguments)

    monkeypatch.setattr(failure_logs, "_explained_by_logs", explained)
    harness = await started()
    harness.api.log_lines["j-worker-0"] = [_STAMP.format(1) + "size" * 500] * 100
    fail(harness, "j-worker-0")
    await harness.reconcile()
    await harness.reconciler.failure_logs.settle()
    explaining = asyncio.create_task(harness.reconcile())
    await asyncio.to_thread(entered.wait, 30)
    written = harness.api.requests["patch", "jobs"]
    harness.delete_job()
    release.set()
    await explaining
    assert harness.state.resource is None
    assert harness.api.requests["patch", "jobs"] == written


async def test_while_too_many_jobs_read_logs_the_next_one_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failure_logs, "MOST_JOBS", 0)
    harness = await started()
    fail(harness, "j-worker-0")
    await harness.reconcile()
    assert harness.stored["state"]["phase"] == "Failed"
    assert harness.api.requests["get", "pods/log"] == 0


async def test_switched_off_it_reads_nothing() -> None:
    harness = Harness(trio("j"), failure_logs=False, status_delay=0.0)
    await harness.reconcile()
    fail(harness, "j-worker-0")
    await harness.reconcile()
    assert harness.stored["state"]["phase"] == "Failed"
    assert harness.api.requests["get", "pods/log"] == 0


async def test_a_restart_by_a_policy_keeps_what_the_rank_said() -> None:
    """The pod and its log are deleted by the restart."""
    harness = await started(policies=[{"event": "PodFailed", "action": "RestartJob"}], maxRetry=2)
    harness.api.log_lines["j-worker-0"] = RAISED
    fail(harness, "j-worker-0")
    await reconcile(harness)
    status = harness.state.status
    assert status is not None and "ValueError: loss is NaN" in status.history[-1].message


async def test_where_logs_never_come_in_time_jobs_stop_waiting_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when the API server cannot reach any kubelet: every failure would cost seconds."""
    monkeypatch.setattr(failure_logs, "SECONDS", 0.01)
    harness = await started(policies=[{"event": "PodFailed", "action": "RestartPod"}], maxRetry=9)
    harness.api.may_read.clear()
    for _ in range(failure_logs.MOST_TIMEOUTS + 3):
        failed = harness.next_sight("j-worker-0", "Failed", containerStatuses=[ended("main", 1, 3)])
        harness.jobs.pod_changed(failed)
        await reconcile(harness)
        harness.jobs.pod_gone(failed)  # deleted for its restart
        await reconcile(harness)
        harness.show("j-worker-0", "Running")
        await reconcile(harness)
    assert harness.api.requests["get", "pods/log"] == failure_logs.MOST_TIMEOUTS
