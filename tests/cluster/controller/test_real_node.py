"""The guide's own file on a real node: real containers, real names, ranks that talk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.cluster.controller.conftest import Controller, ControllerCluster
from tests.cluster.controller.jobs import job
from tests.testbed.parts.node import Node
from tests.testbed.parts.part import Part
from tests.testbed.paths import REPOSITORY

pytestmark = pytest.mark.cluster
Serve = Callable[..., Controller]
GUIDE = REPOSITORY / "tests/guides/guide.en.yaml"


def container(script: str, **fields: Any) -> dict[str, Any]:
    return {"name": "c", "image": "busybox:1.36.1", "command": ["sh", "-c", script], **fields}


def log(testbed: ControllerCluster, pod: str, container: str) -> str:
    return testbed.api.text(f"{testbed.core}/pods/{pod}/log?container={container}")


def test_the_guides_file_runs_unmodified(
    testbed: ControllerCluster, serve: Serve, node: Node, dns: Part
) -> None:
    node.load_image("guide")
    serve()
    testbed.create(yaml.safe_load(GUIDE.read_text()))
    done = testbed.wait_phase("pytorch-job", "Completed", "Failed", patience=120)
    assert done["status"]["state"]["phase"] == "Completed", done["status"]
    said = log(testbed, "pytorch-job-master-0", "master")
    assert "rank 0 got 1 back from rank 1" in said
    assert "rank 0 got 2 back from rank 2" in said
    assert "rank 0 of 3 is done" in said


def test_a_wait_for_the_master_that_times_out_fails_the_job(
    testbed: ControllerCluster, serve: Serve, node: Node, dns: Part
) -> None:
    """Under OnFailure the kubelet would start the wait again and again."""
    serve()
    arguments = ["--wait-master-enabled=true", "--wait-master-timeout=2"]
    spec = {"restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 0}
    tasks = [
        {
            "name": name,
            "replicas": 1,
            "template": {"spec": {**spec, "containers": [container("sleep 300")]}},
        }
        for name in ("master", "worker")
    ]
    testbed.create(job("deaf", *tasks, plugins={"pytorch": arguments}))
    state = testbed.wait_phase("deaf", "Failed", patience=90)["status"]["state"]
    assert state["reason"] == "RankFailed"
    assert "rank 1 (worker-0)" in state["message"]
    assert "timed out waiting for the master" in state["message"]
    worker = testbed.wait_pods(
        lambda pods: [
            p for p in pods if p["metadata"]["name"] == "deaf-worker-0" and p["status"]["phase"] == "Failed"
        ]
    )
    assert worker
    assert "wait-for-master" in log(testbed, "deaf-worker-0", "wait-for-master")


def test_an_image_that_cannot_be_pulled_is_the_jobs_reason(
    testbed: ControllerCluster, serve: Serve, node: Node, dns: Part
) -> None:
    serve()
    pod = {"containers": [container("true", image="nowhere.invalid/none:1")], "restartPolicy": "Never"}
    testbed.create(job("unpulled", {"name": "a", "replicas": 1, "template": {"spec": pod}}))
    message = testbed.wait_reason("unpulled", "ImagePull")
    assert "unpulled-a-0: container c" in message
    assert "nowhere.invalid/none:1" in message


def test_the_container_that_failed_first_is_named(
    testbed: ControllerCluster, serve: Serve, node: Node, dns: Part
) -> None:
    serve()
    pod = {
        "restartPolicy": "Never",
        "containers": [container("exit 0"), container("sleep 0.2; exit 42", name="sidecar")],
    }
    policy = [{"exitCode": 42, "action": "TerminateJob"}]
    testbed.create(job("pair", {"name": "a", "replicas": 1, "template": {"spec": pod}}, policies=policy))
    state = testbed.wait_phase("pair", "Terminated")["status"]["state"]
    assert "container sidecar exited with code 42" in state["message"]


def test_a_volume_that_cannot_be_mounted_is_the_reason(
    testbed: ControllerCluster, serve: Serve, node: Node
) -> None:
    serve()
    pod = {
        "containers": [container("true", volumeMounts=[{"name": "data", "mountPath": "/data"}])],
        "volumes": [{"name": "data", "configMap": {"name": "not-there"}}],
    }
    testbed.create(job("unmounted", {"name": "a", "replicas": 1, "template": {"spec": pod}}))
    message = testbed.wait_reason("unmounted", "Volume", patience=90)
    assert "unmounted-a-0" in message and 'configmap "not-there" not found' in message
