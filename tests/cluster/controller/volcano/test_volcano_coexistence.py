"""Next to Volcano: its scheduler places gangs, its job controller must be off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cluster.controller.conftest import Controller, ControllerCluster
from tests.cluster.controller.jobs import job, task
from tests.testbed.cluster import Cluster

pytestmark = pytest.mark.cluster
Serve = Callable[..., Controller]


@pytest.fixture
def volcano(api_server: Cluster, crds: None) -> Iterator[Callable[..., None]]:
    started = []

    def start(mode: str, *flags: str) -> None:
        started.append(api_server.start_volcano(mode, *flags))

    yield start
    for found in started:
        found.stop()


def test_a_gang_is_placed_by_volcanos_scheduler(
    testbed: ControllerCluster, serve: Serve, volcano: Callable[..., None], fakes: Callable[..., Any]
) -> None:
    fakes(2)
    volcano("scheduler")
    serve()
    groups = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{testbed.namespace}/podgroups"
    testbed.create(job("gang", task("a", 2, after="3s"), task("b", 1, after="3s")))
    testbed.wait_phase("gang", "Running")
    (group,) = testbed.api.list(groups)
    assert group["spec"]["minMember"] == 3
    assert group["spec"]["minTaskMember"] == {"a": 2, "b": 1}
    assert {pod["spec"]["schedulerName"] for pod in testbed.pods()} == {"volcano"}
    testbed.wait_phase("gang", "Completed")
    testbed.api.wait(groups, lambda seen: not seen["items"], what="gone with the Job's end")
    big = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "30"}}}]}
    testbed.create(job("wide", task("a", 3, pod=big, after=None)))
    message = testbed.wait_reason("wide", "WaitingInQueue")
    assert "queue default" in message
    assert not [pod for pod in testbed.pods() if pod["metadata"]["name"].startswith("wide")]
    fakes(2)
    testbed.wait_phase("wide", "Running")


def test_a_gang_that_cannot_be_completed_again_is_an_unknown_event(
    testbed: ControllerCluster, serve: Serve, volcano: Callable[..., None], fakes: Callable[..., Any]
) -> None:
    (node,) = fakes(1)
    volcano("scheduler")
    serve()
    testbed.create(
        job("torn", task("a", 2, after=None), policies=[{"event": "Unknown", "action": "AbortJob"}])
    )
    testbed.wait_phase("torn", "Running")
    testbed.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    testbed.api.delete(f"{testbed.core}/pods/torn-a-0")
    state = testbed.wait_phase("torn", "Aborted")["status"]["state"]
    assert state["reason"] == "Unknown"
    assert "the scheduler finds no place for the rest" in state["message"]


def test_it_refuses_to_run_next_to_volcanos_job_controller(
    testbed: ControllerCluster, serve: Serve, volcano: Callable[..., None]
) -> None:
    volcano("full")
    controller = serve()
    controller._thread.join(60)
    error, controller.error = controller.error, None
    assert error is not None
    assert "Volcano's own job controller is running" in str(error)
    assert "--controllers=*,-job-controller" in error.hint  # type: ignore[attr-defined]


def test_a_group_for_the_coscheduling_plugin(
    testbed: ControllerCluster, serve: Serve, fakes: Callable[..., Any], coscheduling: str
) -> None:
    fakes(1)
    serve()
    testbed.create(job("cosy", task("a", 2, after=None)))
    testbed.wait_phase("cosy", "Running")
    (group,) = testbed.api.list(f"{coscheduling}/namespaces/{testbed.namespace}/podgroups")
    assert group["spec"]["minMember"] == 2
    assert {pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] for pod in testbed.pods()} == {
        group["metadata"]["name"]
    }
    testbed.command("cosy", "AbortJob")
    testbed.wait_phase("cosy", "Aborted")
    testbed.api.wait(
        f"{coscheduling}/namespaces/{testbed.namespace}/podgroups",
        lambda seen: not seen["items"],
        what="gone",
    )


@pytest.fixture
def coscheduling(api_server: Cluster) -> Iterator[str]:
    """The kind of the coscheduling plugin, served."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    name = "podgroups.scheduling.x-k8s.io"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    api_server.api.create(
        path,
        {
            "metadata": {
                "name": name,
                "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
            },
            "spec": {
                "group": "scheduling.x-k8s.io",
                "scope": "Namespaced",
                "names": {
                    "plural": "podgroups",
                    "singular": "podgroup",
                    "kind": "PodGroup",
                    "listKind": "PodGroupList",
                },
                "versions": [
                    {
                        "name": "v1alpha1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": schema},
                    }
                ],
            },
        },
    )
    api_server.api.wait("/apis/scheduling.x-k8s.io/v1alpha1", lambda seen: seen is not None, what="served")
    yield "/apis/scheduling.x-k8s.io/v1alpha1"
    api_server.api.delete(f"{path}/{name}")
    api_server.api.wait("/apis/scheduling.x-k8s.io/v1alpha1", lambda seen: seen is None, what="not served")
    # The next controller would discover it, and then could not watch it.
    api_server.api.wait(
        "/apis", lambda seen: "scheduling.x-k8s.io" not in str(seen), what="without the group"
    )
