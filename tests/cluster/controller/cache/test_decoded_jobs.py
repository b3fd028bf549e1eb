"""Large Jobs that wait keep no more than a number of bytes decoded, and behave as if all of them did."""

from __future__ import annotations

import pytest

from tests.cluster.controller.harness import Harness
from tests.cluster.controller.jobs import Object, job, task
from tests.cluster.controller.load.hostile_cluster import Cluster
from vcjob.cluster.controller.cache import decoded_jobs
from vcjob.cluster.controller.offload import LARGE_SPEC_BYTES

COUNT, KEPT = 10, 3


def large_job(replicas: int = 1, **spec: object) -> Object:
    tolerations: list[Object] = [{} for _ in range(LARGE_SPEC_BYTES // 3)]
    return job("j", task("a", replicas, pod={"tolerations": tolerations}, after=None), **spec)


async def test_of_many_large_jobs_a_few_keep_their_decoded_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty-five Jobs of 0.9 MB exceeded a gigabyte."""
    monkeypatch.setattr(decoded_jobs, "MAX_BYTES", 4 * LARGE_SPEC_BYTES)
    cluster = Cluster()
    names = [f"large{number}" for number in range(COUNT)]
    for name in names:
        cluster.add_job(name, large_job())
    for _ in range(3):
        for name in names:
            await cluster.controller._reconciler.reconcile(("n", f"{name}-uid"))
    kept = [name for name in names if (state := cluster.controller.jobs.named("n", name)) and state.job]
    assert 0 < len(kept) <= KEPT
    assert kept == names[-len(kept) :], "those that were used last"
    assert {f"{name}-a-0" for name in names} <= {name for plural, name in cluster.api.objects}


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoded_jobs, "MAX_BYTES", 0)


@pytest.mark.usefixtures("dropped")
async def test_a_job_whose_spec_was_dropped_goes_on_and_is_scaled() -> None:
    harness = Harness(large_job(), status_delay=0.0)
    await harness.reconcile()
    assert harness.state.job is None and harness.state.plan is None
    harness.show("j-a-0", "Running")
    await harness.reconcile()
    assert harness.stored["state"]["phase"] == "Running"
    harness.change(large_job(2))
    await harness.reconcile()
    assert harness.pods() == ["j-a-0", "j-a-1"]


@pytest.mark.usefixtures("dropped")
async def test_an_update_that_must_not_be_is_rejected_although_the_spec_was_dropped() -> None:
    harness = Harness(large_job(), status_delay=0.0)
    await harness.reconcile()
    harness.show("j-a-0", "Running")
    await harness.reconcile()
    harness.change(large_job(2, minAvailable=5))
    await harness.reconcile()
    await harness.events.drain()
    events = [found["reason"] for (plural, _), found in harness.api.objects.items() if plural == "events"]
    assert "InvalidUpdate" in events
    assert harness.pods() == ["j-a-0"], "it continues as it was"
