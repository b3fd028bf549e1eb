"""Which events a Job gets: pending reasons once each, bursts combined, the scheduler once per cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.controller.harness import Harness
from tests.cluster.controller.jobs import job, task
from vcjob.cluster.controller.event_recorder import EVENTS_PER_REASON, REPEAT_SECONDS
from vcjob.kube.errors import Forbidden

QUOTA = "exceeded quota: few, requested: pods=1"
SECURITY = 'violates PodSecurity "restricted:latest": runAsNonRoot != true'
UNBOUND = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."


async def events(harness: Harness) -> list[tuple[str, str]]:
    await harness.events.drain()
    found = [document for (plural, _), document in harness.api.objects.items() if plural == "events"]
    return [(event["reason"], event["message"]) for event in found]


def refuse_pods(message: str) -> Callable[[Harness], None]:
    def prepare(harness: Harness) -> None:
        harness.api.refuse = lambda verb, plural, name: (
            Forbidden(403, server_message=message) if (verb, plural) == ("create", "pods") else None
        )

    return prepare


def take_the_name(harness: Harness) -> None:
    harness.api.put("pods", {"metadata": {"name": "j-a-0"}})


def unschedulable(message: str) -> Callable[[Harness], None]:
    def show(harness: Harness) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        for name in harness.pods():
            harness.show(name, "Pending", conditions=[condition])

    return show


@pytest.mark.parametrize(
    ("before", "after", "reason", "part"),
    [
        (refuse_pods(QUOTA), None, "QuotaExceeded", QUOTA),
        (refuse_pods(SECURITY), None, "PodSecurity", SECURITY),
        (take_the_name, None, "NameConflict", "pod j-a-0 exists and does not belong to this Job"),
        (None, unschedulable("no node fits"), "Unschedulable", "no node fits"),
        (None, unschedulable(UNBOUND), "Volume", "unbound immediate PersistentVolumeClaims"),
    ],
)
async def test_a_pending_reason_becomes_one_event(
    before: Callable[[Harness], None] | None,
    after: Callable[[Harness], None] | None,
    reason: str,
    part: str,
) -> None:
    harness = Harness(job("j", task("a", 3)), status_delay=0.0)
    if before is not None:
        before(harness)
    await harness.reconcile()
    if after is not None:
        after(harness)
    for _ in range(3):
        harness.state.retry.retry_now()
        await harness.reconcile()
    found = [message for name, message in await events(harness) if name == reason]
    assert len(found) == 1, "though the number of pods in the message changes"
    assert part in found[0]


async def test_a_pending_reason_that_lasts_is_repeated_after_some_minutes() -> None:
    harness = Harness(job("j", task("a", 1)))
    refuse_pods(QUOTA)(harness)
    await harness.reconcile()
    recent = harness.state.recent_events["QuotaExceeded"]
    recent.update({message: at - REPEAT_SECONDS for message, at in recent.items()})
    await harness.reconcile()
    assert [name for name, _ in await events(harness)].count("QuotaExceeded") == 2


async def test_a_pod_that_starts_is_no_event() -> None:
    harness = Harness(job("j", task("a", 1)))
    await harness.reconcile()
    waiting = {"name": "c", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
    harness.show("j-a-0", "Pending", initContainerStatuses=[waiting])
    await harness.reconcile()
    assert "InitStep" not in {name for name, _ in await events(harness)}


async def test_the_drain_of_a_node_is_one_event() -> None:
    harness = Harness(job("j", task("a", 5, after=None)))
    await harness.reconcile()
    for name in harness.pods():
        harness.show(name, "Running")
    await harness.reconcile()
    for name in harness.pods():
        harness.lose(name)
        await harness.reconcile()
    found = [message for name, message in await events(harness) if name == "PodEvicted"]
    assert len(found) == 1
    assert all(f"a-[{index}]" in found[0] for index in range(5))
    assert len(harness.pods()) == 5, "all are replaced"


async def test_another_scheduler_is_reported_once_for_all_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(job("j", task("a", 1)))
    monkeypatch.setattr(
        harness.reconciler._preparer._schedulers, "replaced", lambda *_: "another one places the pods"
    )
    await harness.reconcile()
    other: dict[str, Any] = job("k", task("a", 1))
    other["metadata"] |= {"uid": "other-uid"}
    harness.change(other)
    await harness.reconciler.reconcile(("n", "other-uid"))
    assert "k-a-0" in harness.pods()
    assert [name for name, _ in await events(harness)].count("SchedulerReplaced") == 1


async def test_messages_that_all_differ_neither_pile_up_nor_displace_other_events() -> None:
    harness = Harness(job("j", task("a", 1)))
    for number in range(10_000):  # more than fit into the queue
        harness.events.emit(harness.state, "Warning", "PodWarning", f"{number}{'x' * 5000}")
    assert sum(map(len, harness.state.recent_events.values())) == EVENTS_PER_REASON
    harness.events.emit(harness.state, "Warning", "Unschedulable", "no node fits")
    found = [reason for reason, _ in await events(harness)]
    assert found == ["PodWarning"] * EVENTS_PER_REASON + ["Unschedulable"]


async def test_the_events_of_a_reason_are_reported_again_after_some_minutes() -> None:
    harness = Harness(job("j", task("a", 1)))
    for _ in range(2):
        for number in range(EVENTS_PER_REASON + 1):
            harness.events.emit(harness.state, "Warning", "PodWarning", str(number))
        for recent in harness.state.recent_events.values():
            recent.update({message: at - REPEAT_SECONDS for message, at in recent.items()})
    assert len(await events(harness)) == 2 * EVENTS_PER_REASON


async def test_a_burst_of_any_size_is_combined_into_one_event_of_bounded_size() -> None:
    harness = Harness(job("j", task("a", 1)))
    for number in range(10_000):
        harness.events.emit(harness.state, "Warning", "PodEvicted", f"rank {number} was evicted")
    (combined,) = harness.events._combined.values()
    assert len(combined.messages) < 100
    ((_, message),) = await events(harness)
    assert message.startswith("rank 0 was evicted; rank 1 was evicted") and len(message) <= 1001
