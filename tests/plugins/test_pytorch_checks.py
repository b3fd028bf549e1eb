"""The errors and warnings of the pytorch plugin."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugins.jobs import job, problems, task
from vcjob.spec.wording import show

LIST = "spec.plugins.pytorch"


def said(*arguments: str, tasks: Any = None) -> list[tuple[str, str, str, str | None]]:
    return problems(job(*(tasks or (task("master"), task("worker"))), pytorch=list(arguments)))


@pytest.mark.parametrize("port", ["1", "65535", "0xffff"])
def test_a_port_in_range_is_accepted(port: str) -> None:
    assert said(f"--port={port}") == []


@pytest.mark.parametrize("port", ["0", "65536", "-1"])
def test_a_bad_port_is_refused_with_the_item_path(port: str) -> None:
    assert said("--master=master", f"--port={port}") == [
        ("error", f"{LIST}[1]", f"`--port={port}` is not a port: it must be 1 to 65535", "write --port=23456")
    ]


@pytest.mark.parametrize("timeout", ["1", "2147483647"])
def test_a_timeout_in_range_is_accepted(timeout: str) -> None:
    assert said("--wait-master-enabled", f"--wait-master-timeout={timeout}") == []


@pytest.mark.parametrize("timeout", ["0", "-5", "2147483648"])
def test_a_timeout_below_1_or_beyond_all_measure_is_refused(timeout: str) -> None:
    assert said("--wait-master-enabled", f"--wait-master-timeout={timeout}") == [
        (
            "error",
            f"{LIST}[1]",
            f"`--wait-master-timeout={timeout}` must be 1 to 2147483647 seconds",
            "write --wait-master-timeout=300",
        )
    ]


@pytest.mark.parametrize("image", ["", "a b", "a\n"])
def test_an_invalid_image_is_refused(image: str) -> None:
    assert said("--wait-master-enabled", f"--wait-master-image={image}") == [
        (
            "error",
            f"{LIST}[1]",
            f"`--wait-master-image={show(image)}` is not an image",
            "write --wait-master-image=busybox:1.36.1, or =self to use the image of the worker",
        )
    ]


@pytest.mark.parametrize("number", ["0", "-1", "two", "", "1.5"])
def test_an_invalid_number_of_processes_is_refused(number: str) -> None:
    assert said(f"--nproc-per-node={number}") == [
        (
            "error",
            f"{LIST}[0]",
            f"`--nproc-per-node={number}` must be a number of at least 1, auto, gpu or cpu",
            "write --nproc-per-node=auto",
        )
    ]


@pytest.mark.parametrize("flag", ["--port", "--wait-master-timeout", "--nproc-per-node"])
def test_a_number_of_thousands_of_digits_is_refused(flag: str) -> None:
    ((severity, path, message, _),) = said("--wait-master-enabled", f"{flag}={'1' * 5000}")
    assert (severity, path) == ("error", f"{LIST}[1]")
    assert len(message) < 200


def test_a_container_with_the_name_of_the_wait_container_is_refused() -> None:
    own = [{"name": "main", "image": "i"}, {"name": "wait-for-master", "image": "i"}]
    tasks = (task("master", containers=own), task("worker", containers=own), task("other", containers=own))
    assert said("--wait-master-enabled", tasks=tasks) == [
        (
            "error",
            "spec.tasks[1].template.spec.containers[1].name",
            "`--wait-master-enabled` adds an init container of the name `wait-for-master`",
            "rename this container",
        )
    ]
    assert said(tasks=tasks) == []
    assert said("--wait-master-enabled", tasks=(task("master"), task("worker", initContainers=own[1:]))) == []


@pytest.mark.parametrize(
    "flag", ["--wait-master-timeout=5", "--wait-master-image=a:1", "--wait-master-set-user=false"]
)
def test_settings_of_a_wait_that_is_off_are_warned_about(flag: str) -> None:
    name = flag.partition("=")[0]
    assert said(flag) == [
        (
            "warning",
            f"{LIST}[0]",
            f"`{name}` has no effect without `--wait-master-enabled`",
            "add --wait-master-enabled=true",
        )
    ]
    assert said("--wait-master-enabled", flag) == []


def test_improvement_3_a_missing_master_is_refused_where_it_is_named() -> None:
    assert said("--port=1", "--master=chief") == [
        (
            "error",
            f"{LIST}[1]",
            "there is no task named `chief` for the master, so the ranks could not find each other",
            "write --master=NAME with one of: master, worker",
        )
    ]


def test_an_explicit_worker_that_names_no_task_is_refused() -> None:
    assert said("--worker=helper") == [
        (
            "error",
            f"{LIST}[0]",
            "`--worker=helper` is not the name of a task of this Job",
            "write --worker=NAME with one of: master, worker",
        )
    ]


def test_the_hint_for_a_job_without_tasks_names_the_task_to_add() -> None:
    assert [hint for _, _, _, hint in problems(job(pytorch=["--master=a", "--worker=b"]))] == [
        "add a task named a",
        "add a task named b",
    ]


def test_one_unknown_name_for_master_and_worker_is_one_problem() -> None:
    found = said("--master=node", "--worker=node")
    assert [(severity, path) for severity, path, _, _ in found] == [("error", f"{LIST}[0]")]


def test_improvement_4_two_masters_are_refused() -> None:
    assert said(tasks=(task("worker"), task("master", 2))) == [
        (
            "error",
            "spec.tasks[1].replicas",
            "2 masters would all be rank 0",
            "write replicas: 1, or use one task for all ranks with --master=master and --worker=master",
        )
    ]


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_without_a_master_pod_are_refused(workers: int) -> None:
    assert said(tasks=(task("master", 0), task("worker", workers))) == [
        (
            "error",
            "spec.tasks[0].replicas",
            "the workers need rank 0, but the master has no replicas",
            "write replicas: 1",
        )
    ]


@pytest.mark.parametrize(
    "tasks", [(task("master", 0), task("worker", 0)), (task("master", 0), task("extra", 3))]
)
def test_a_job_scaled_to_zero_is_accepted(tasks: Any) -> None:
    assert said(tasks=tasks) == []


def test_improvement_28_a_hostname_for_several_ranks_is_refused() -> None:
    tasks = (task("master"), task("worker", 2, hostname="w"), task("extra", 2, hostname="x"))
    assert said(tasks=tasks) == [
        (
            "error",
            "spec.tasks[1].template.spec.hostname",
            "2 ranks would have the same hostname `w`",
            "remove it, so that each pod is named test-pytorch-worker-INDEX",
        )
    ]
    assert said(tasks=(task("master"), task("worker", 1, hostname="w"))) == []


def test_improvement_28_a_hostname_that_is_the_masters_too_is_refused() -> None:
    assert said(tasks=(task("master", hostname="h"), task("worker", hostname="h"))) == [
        (
            "error",
            "spec.tasks[1].template.spec.hostname",
            "the task `master` has the same hostname `h`",
            "change or remove one of them",
        )
    ]
    assert said(tasks=(task("master", hostname="h"), task("worker", hostname="h", subdomain="other"))) == []


@pytest.mark.parametrize("kind", ["labels", "annotations"])
def test_improvement_29_an_istio_sidecar_is_warned_about(kind: str) -> None:
    injected = task("worker", metadata={kind: {"sidecar.istio.io/inject": "true"}})
    assert said(tasks=(task("master"), injected)) == [
        (
            "warning",
            f'spec.tasks[1].template.metadata.{kind}["sidecar.istio.io/inject"]',
            "an Istio sidecar intercepts the connections between the ranks, so that the rendezvous fails",
            "add --disable-istio-sidecar at the end of the arguments of pytorch",
        )
    ]
    assert said("--disable-istio-sidecar", tasks=(task("master"), injected)) == []
    let_be = task("worker", metadata={kind: {"sidecar.istio.io/inject": "false"}})
    assert said(tasks=(task("master"), let_be)) == []


def test_improvement_5_a_value_of_the_users_that_is_overridden_is_warned_about() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "RANK", "value": "7"}]
    containers = [{"name": "main", "image": "i", "env": env}]
    inits = [{"name": "pre", "image": "i", "env": [{"name": "VC_MASTER_NUM", "value": "7"}]}]
    tasks = (
        task("master", containers=containers, initContainers=inits),
        task("extra", containers=containers),
    )
    assert said(tasks=tasks) == [
        (
            "warning",
            "spec.tasks[0].template.spec.initContainers[0].env[0]",
            "a plugin sets `VC_MASTER_NUM`, so this value has no effect",
            "remove it, or rename the variable",
        ),
        (
            "warning",
            "spec.tasks[0].template.spec.containers[0].env[1]",
            "a plugin sets `RANK`, so this value has no effect",
            "remove it, or rename the variable",
        ),
    ]


def test_all_problems_come_at_once() -> None:
    found = said("–port=0", "--wait-master-timeout=0", "--master=chief", "x", tasks=(task("a"), task("b")))
    assert [(severity, path) for severity, path, _, _ in found] == [
        ("error", f"{LIST}[0]"),
        ("error", f"{LIST}[3]"),
        ("error", f"{LIST}[0]"),
        ("error", f"{LIST}[1]"),
        ("warning", f"{LIST}[1]"),
        ("error", f"{LIST}[2]"),
    ]


@pytest.mark.parametrize("policy", [None, "", "Always"])
@pytest.mark.parametrize("rank_task", [0, 1])
def test_a_rank_that_is_always_restarted_is_warned_about(policy: str | None, rank_task: int) -> None:
    tasks = [task("master"), task("worker"), task("tensorboard", restartPolicy=policy)]
    tasks[rank_task]["template"]["spec"]["restartPolicy"] = policy
    where = f"spec.tasks[{rank_task}].template.spec" + (".restartPolicy" if policy else "")
    ((severity, path, message, hint),) = problems(job(*tasks))
    assert (severity, path) == ("warning", where)
    assert "Always: a rank that ends is started again even if it succeeded" in message
    assert "`restartPolicy: Never`" in (hint or "")


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_a_rank_that_is_not_always_restarted_is_fine(policy: str) -> None:
    assert problems(job(task("master", restartPolicy=policy))) == []
