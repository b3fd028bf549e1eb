"""The wait-for-master container in the pod."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugins.jobs import Pod, job, task
from vcjob.plugins.wait import program, wait_container


def wait(*arguments: str, **worker: Any) -> dict[str, Any]:
    made = job(task("master"), task("worker", 2, **worker), pytorch=["--wait-master-enabled", *arguments])
    return Pod(made, "worker", 1).container("wait-for-master")


def test_rows_8_and_9_the_whole_container() -> None:
    assert wait() == {
        "name": "wait-for-master",
        "image": "busybox:1.36.1",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", program()],
        "env": [
            {"name": "VCJOB_WAIT_HOST", "value": "$(MASTER_ADDR)"},
            {"name": "VCJOB_WAIT_PORT", "value": "$(MASTER_PORT)"},
            {"name": "VCJOB_WAIT_TIMEOUT", "value": "300"},
        ],
        "resources": {
            "requests": {"cpu": "200m", "memory": "64Mi"},
            "limits": {"cpu": "200m", "memory": "64Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            "runAsNonRoot": True,
            "runAsUser": 65534,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "test-pytorch-svc", "mountPath": "/etc/volcano"}],
    }


def test_it_is_the_last_init_container() -> None:
    made = job(
        task("master"),
        task("worker", initContainers=[{"name": "pre", "image": "i"}]),
        pytorch=["--wait-master-enabled"],
    )
    names = [container["name"] for container in Pod(made, "worker", 0).spec["initContainers"]]
    assert names == ["pre", "wait-for-master"]


@pytest.mark.parametrize("policy", [None, "Always", "Never"])
def test_the_jobs_own_image_on_request(policy: str | None) -> None:
    first: dict[str, Any] = {"name": "main", "image": "mine:2"}
    if policy:
        first["imagePullPolicy"] = policy
    container = wait("--wait-master-image=self", containers=[first, {"name": "side", "image": "side:1"}])
    assert (container["image"], container["imagePullPolicy"]) == ("mine:2", policy or "IfNotPresent")


@pytest.mark.parametrize(
    ("arguments", "of_pod", "user"),
    [
        ([], None, {"runAsNonRoot": True, "runAsUser": 65534}),
        ([], {"fsGroup": 5}, {"runAsNonRoot": True, "runAsUser": 65534}),
        ([], {"runAsUser": 1000}, {"runAsNonRoot": True}),
        ([], {"runAsUser": 0}, {}),
        (["--wait-master-set-user=false"], None, {"runAsNonRoot": True}),
    ],
)
def test_the_user_is_nobody_unless_the_pod_or_the_cluster_says_otherwise(
    arguments: list[str], of_pod: dict[str, Any] | None, user: dict[str, Any]
) -> None:
    context = wait(*arguments, securityContext=of_pod)["securityContext"]
    assert {key: value for key, value in context.items() if key.startswith("runAs")} == user


def test_siblings_do_not_share_what_a_later_hand_may_change() -> None:
    first, second = wait(), wait()
    first["resources"]["limits"]["cpu"] = "9"
    assert second["resources"] == {
        "requests": {"cpu": "200m", "memory": "64Mi"},
        "limits": {"cpu": "200m", "memory": "64Mi"},
    }


def test_a_pod_without_containers_is_left_to_other_checks() -> None:
    container = wait_container({}, image="self", timeout=1, set_user=True)
    assert (container["image"], container["imagePullPolicy"]) == ("", "IfNotPresent")
