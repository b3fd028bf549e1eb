"""Objects that outlive their Job: the garbage collector comes first, and what it forgets the controller deletes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.cluster.controller.conftest import Controller, ControllerCluster, establish
from tests.cluster.controller.faults.storm.users import insist
from tests.cluster.controller.harness import KEY, Harness, refusing
from tests.cluster.controller.jobs import job, task, trio
from tests.testbed.cluster import Cluster
from vcjob.cluster.controller import orphans
from vcjob.cluster.resources import PartialCommand
from vcjob.kube.errors import Forbidden, KubeError, LeaseLost, NotFound, ServerError, Unreachable

LONG_AGO = float("-inf")


async def _deleted(*, claim: bool = False) -> Harness:
    """A Job with one pod that runs and one that has ended, just deleted."""
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    more = {"volumes": [{"mountPath": "/data", "volumeClaim": wanted}]} if claim else {}
    harness = Harness(job("j", task("a", 2, after=None), plugins={"svc": []}, **more))
    await harness.reconcile()
    harness.show("j-a-0", "Running")
    harness.show("j-a-1", "Succeeded")
    harness.delete_job()
    await harness.reconcile()
    return harness


def _left(harness: Harness) -> set[str]:
    return {plural for plural, _ in harness.api.objects if plural != "events"}


async def test_the_garbage_collector_has_its_turn_first() -> None:
    harness = await _deleted()
    assert _left(harness) == {"pods", "services", "configmaps", "networkpolicies"}
    assert 0 < max(harness.queue.later) <= orphans.GRACE_SECONDS


async def test_what_the_garbage_collector_leaves_is_deleted() -> None:
    harness = await _deleted()
    harness.state.orphaned_since = LONG_AGO
    await harness.reconcile()
    assert _left(harness) == set()


async def test_objects_are_deleted_also_when_another_job_has_the_name() -> None:
    harness = await _deleted()
    harness.api.put("jobs", {"metadata": {"name": "j", "uid": "another"}, "spec": {}})
    harness.state.orphaned_since = LONG_AGO
    await harness.reconcile()
    assert _left(harness) == {"jobs"}


def _add_command(harness: Harness, name: str, target: str) -> None:
    document = {"metadata": {"name": name}, "action": "AbortJob", "target": {"name": target}}
    made = harness.api.put("commands", document)
    harness.jobs.command_added(msgspec.convert(made, PartialCommand))


def _commands(harness: Harness) -> set[str]:
    return {name for plural, name in harness.api.objects if plural == "commands"}


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "COMMAND_GRACE_SECONDS", 0.0)


@pytest.mark.parametrize("job_exists", [True, False])
@pytest.mark.usefixtures("no_grace")
async def test_a_command_without_a_job_is_deleted(job_exists: bool) -> None:
    harness = Harness(job("other", task("a", 1)))
    _add_command(harness, "c", "j")
    if job_exists:  # and the watch of Jobs has not shown it yet
        harness.api.put("jobs", {"metadata": {"name": "j"}, "spec": {}})
    await harness.reconciler._orphans.delete_commands()
    assert _commands(harness) == ({"c"} if job_exists else set())


@pytest.mark.parametrize("target", ["a,b", "a=b", "", "A", "a/b"])
@pytest.mark.usefixtures("no_grace")
async def test_a_command_for_a_name_that_no_job_can_have_is_deleted_without_a_search(target: str) -> None:
    """In a field selector such a name is an error, or a selector that a user has written."""
    harness = Harness(job("other", task("a", 1)))
    _add_command(harness, "strange", target)
    _add_command(harness, "ordinary", "j")
    await harness.reconciler._orphans.delete_commands()
    assert _commands(harness) == set()
    assert harness.api.requests["list", "jobs"] == 1


@pytest.mark.parametrize("refused", [("list", "metadata.name=first"), ("delete", "c1")])
@pytest.mark.usefixtures("no_grace")
async def test_a_command_that_cannot_be_deleted_does_not_stop_the_deletion_of_others(
    refused: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    harness = Harness(job("other", task("a", 1)))
    _add_command(harness, "c1", "first")
    _add_command(harness, "c2", "second")
    harness.api.refuse = lambda verb, plural, name: (
        Forbidden(403, server_message="not allowed") if (verb, name) == refused else None
    )
    await harness.reconciler._orphans.delete_commands()
    assert _commands(harness) == {"c1"}
    assert "n/c1" in caplog.text and "not allowed" in caplog.text
    harness.api.refuse = lambda verb, plural, name: None
    await harness.reconciler._orphans.delete_commands()
    assert _commands(harness) == set(), "it is tried again"


@pytest.mark.parametrize("error", [Unreachable("no route"), ServerError(500), LeaseLost("lost")])
@pytest.mark.usefixtures("no_grace")
async def test_without_an_answer_to_one_command_no_other_request_is_made(error: KubeError) -> None:
    harness = Harness(job("other", task("a", 1)))
    _add_command(harness, "c1", "first")
    _add_command(harness, "c2", "second")
    harness.api.refuse = refusing("list", "jobs", lambda: error)
    with pytest.raises(type(error)):
        await harness.reconciler._orphans.delete_commands()
    assert harness.api.requests.total() == 1


async def test_pods_of_an_owner_whose_name_no_job_can_have_are_deleted() -> None:
    harness = await _deleted()
    harness.state.name = "a,b"  # from the owner reference of a pod that somebody created by hand
    harness.state.orphaned_since = LONG_AGO
    await harness.reconcile()
    assert harness.api.requests["list", "jobs"] == 0
    assert "services" not in _left(harness)


async def test_a_controller_that_never_saw_the_job_deletes_its_objects_too() -> None:
    harness = await _deleted()
    harness.take_over()
    harness.show("j-a-1", "Succeeded")
    await harness.reconcile()
    harness.state.orphaned_since = LONG_AGO
    await harness.reconcile()
    assert harness.pods() == []


async def test_nothing_is_deleted_while_the_server_still_has_the_job() -> None:
    harness = await _deleted()
    harness.api.put("jobs", {"metadata": {"name": "j", "uid": harness.state.uid}, "spec": {}})
    before = _left(harness)
    harness.state.orphaned_since = LONG_AGO
    await harness.reconciler.reconcile(KEY)
    assert _left(harness) == before
    assert harness.state.resource is not None and harness.state.orphaned_since is None, (
        "it is looked after again"
    )


async def test_nothing_is_deleted_while_the_server_does_not_know_jobs() -> None:
    """As while an API server comes up."""
    harness = await _deleted()
    before = _left(harness)
    unknown = NotFound(404, server_message="the server could not find the requested resource")
    harness.api.refuse = lambda verb, plural, name: unknown if plural == "jobs" else None
    harness.state.orphaned_since = LONG_AGO
    with pytest.raises(NotFound):
        await harness.reconcile()
    assert _left(harness) == before


async def test_an_object_that_got_another_owner_is_not_touched() -> None:
    harness = await _deleted()
    service = harness.api.objects["services", "j"]
    harness.api.put("services", {**service, "metadata": {**service["metadata"], "ownerReferences": []}})
    harness.state.orphaned_since = LONG_AGO
    await harness.reconcile()
    assert _left(harness) == {"services"}


async def test_claims_are_left_to_the_garbage_collector() -> None:
    harness = await _deleted(claim=True)
    harness.state.orphaned_since = LONG_AGO
    await harness.reconcile()
    assert _left(harness) == {"persistentvolumeclaims"}


@pytest.mark.cluster
def test_what_a_garbage_collector_forgot_is_deleted(
    fresh_cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Job is deleted and created again while the collector's watch is broken: it takes the new one for the old."""
    monkeypatch.setattr(orphans, "GRACE_SECONDS", 5.0)
    cluster = fresh_cluster()
    establish(cluster)
    cluster.fakes(2)
    testbed = ControllerCluster(cluster, "default")

    def serving() -> Controller:
        return Controller(cluster.kubeconfig, "default", gang="none")

    controller = serving()
    testbed.create(trio("again", after=None))
    old = testbed.wait_phase("again", "Running")["metadata"]["uid"]
    _wait_until_collected(testbed)
    controller.stop()
    collector = cluster.part("kube-controller-manager")
    collector.pause()
    _restart_api_server(testbed)  # the collector's watches are cut
    testbed.api.delete(f"{testbed.jobs}/again")
    testbed.create(job("again", task("a", 1), plugins={"svc": []}))
    _restart_api_server(testbed)  # it remembers no change from before
    collector.resume()

    controller = serving()
    testbed.wait_phase("again", "Completed", patience=90)
    testbed.wait_pods(lambda pods: {p["metadata"]["ownerReferences"][0]["uid"] for p in pods} - {old})
    testbed.wait_pods(lambda pods: all(p["metadata"]["ownerReferences"][0]["uid"] != old for p in pods))
    service = testbed.api.get(f"{testbed.core}/services/again")
    assert service["metadata"]["ownerReferences"][0]["uid"] != old
    # The collector of Kubernetes 1.36 notices the deletion itself and can be faster.
    assert controller.writes()["delete", "services"] <= 1
    controller.stop()


def _restart_api_server(testbed: ControllerCluster) -> None:
    part = testbed.cluster.part("kube-apiserver")
    part.kill()
    part.start()
    insist(lambda: testbed.phase("again"))


def _wait_until_collected(testbed: ControllerCluster) -> None:
    """The garbage collector of a new cluster knows Jobs only after a while."""
    config: dict[str, Any] = {
        "metadata": {
            "name": "of-nobody",
            "ownerReferences": [
                {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "nobody", "uid": "nobody"}
            ],
        }
    }
    testbed.api.create(f"{testbed.core}/configmaps", config)
    testbed.api.wait(f"{testbed.core}/configmaps/of-nobody", lambda seen: seen is None, 90, "collected")
