"""The improvements over Volcano that concern admission, numbered as in docs/semantics.md."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.cases import (
    admitted,
    container,
    errors,
    job,
    pytorch_job,
    refused,
    task,
    template,
    warned,
)

PYTORCH = "spec.plugins.pytorch"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--port=abc"],
        ["--port=0"],
        ["--port=65536"],
        ["--wait-master-enabled=maybe"],
        ["--wait-master-timeout=0"],
        ["--prot=1"],
        ["--port"],
    ],
)
def test_improvement_2_a_bad_flag_is_refused_with_the_path_of_the_item_a_reason_and_a_hint(
    arguments: list[str],
) -> None:
    (problem,) = errors(pytorch_job("--master=master", *arguments))
    assert problem.path == f"{PYTORCH}[1]"
    assert problem.hint


def test_improvement_2_an_en_dash_from_a_rendered_guide_is_explained() -> None:
    (problem,) = errors(pytorch_job("–master=master"))
    assert problem.path == f"{PYTORCH}[0]"
    assert "--" in (problem.hint or "")


def test_improvement_3_a_missing_master_task_is_refused() -> None:
    (problem,) = errors(pytorch_job(tasks=[task("worker", 2)]))
    assert problem.path == PYTORCH
    assert "no task named" in problem.message
    assert "--master=worker" in (problem.hint or "")


def test_improvement_3_an_explicit_worker_that_names_no_task_is_refused() -> None:
    (problem,) = errors(pytorch_job("--worker=w", tasks=[task("master")]))
    assert problem.path == f"{PYTORCH}[0]"


def test_improvement_3_without_a_worker_task_the_master_is_alone() -> None:
    admitted(pytorch_job(tasks=[task("master")]))


def test_improvement_4_two_masters_are_refused() -> None:
    refused(pytorch_job(tasks=[task("master", 2), task("worker")]), "spec.tasks[0].replicas", "rank 0")


def test_improvement_4_one_task_named_as_both_is_a_homogeneous_job() -> None:
    admitted(pytorch_job("--master=all", "--worker=all", tasks=[task("all", 4)]))


def test_improvement_5_a_users_value_for_an_injected_variable_is_warned_about() -> None:
    tasks = [
        task(
            "master",
            template=template(container(env=[{"name": "A", "value": "1"}, {"name": "RANK", "value": "5"}])),
        )
    ]
    warned(pytorch_job(tasks=tasks), "spec.tasks[0].template.spec.containers[0].env[1]", "RANK")


def test_improvement_7_a_port_of_the_plugins_name_is_no_problem() -> None:
    ports = [{"name": "pytorchjob-port", "containerPort": 123}]
    admitted(pytorch_job(tasks=[task("master", template=template(container(ports=ports)))]))


def test_improvement_7_several_containers_on_the_host_network_are_no_problem() -> None:
    pod = template(container("a"), container("b"), hostNetwork=True)
    admitted(pytorch_job(tasks=[task("master", template=pod)]))


@pytest.mark.parametrize("name", ["master", "worker"])
def test_improvement_28_a_hostname_on_several_ranks_is_refused(name: str) -> None:
    named = template(hostname="fixed")
    tasks = [task("master", template=named if name == "master" else template()), task("worker", 2)]
    if name == "worker":
        tasks[1]["template"] = named
        refused(pytorch_job(tasks=tasks), "spec.tasks[1].template.spec.hostname", "fixed")
    else:
        admitted(pytorch_job(tasks=tasks))


def test_improvement_28_a_hostname_on_several_pods_without_a_rank_is_allowed() -> None:
    admitted(pytorch_job(tasks=[task("master"), task("side", 2, template=template(hostname="fixed"))]))


@pytest.mark.parametrize("policy", ["OnFailure", "Always", None])
def test_improvement_29_exit_codes_that_never_fire_are_warned_about(policy: str | None) -> None:
    pod = template(restartPolicy=policy)
    rule = [{"exitCode": 3, "action": "RestartJob"}]
    warned(
        job(task(template=pod, policies=rule)),
        "spec.tasks[0].policies[0].exitCode",
        "never acts on task `work`",
    )
    warned(
        job(task("a", template=pod), task("b"), policies=rule),
        "spec.policies[0].exitCode",
        "never acts on task `a`",
    )


def test_improvement_29_many_tasks_are_not_all_listed() -> None:
    tasks = [task(name, template=template(restartPolicy="OnFailure")) for name in "abcde"]
    doc = job(*tasks, policies=[{"exitCode": 3, "action": "RestartJob"}])
    warned(doc, "spec.policies[0].exitCode", "tasks `a`, `b`, `c` and others")


def test_improvement_29_exit_codes_that_can_fire_are_not_warned_about() -> None:
    rule = [{"exitCode": 3, "action": "RestartJob"}]
    assert admitted(job(task(policies=rule), policies=rule)).problems == []


@pytest.mark.parametrize("kind", ["labels", "annotations"])
def test_improvement_29_istio_injection_is_warned_about(kind: str) -> None:
    pod: dict[str, Any] = {**template(), "metadata": {kind: {"sidecar.istio.io/inject": "true"}}}
    path = f'spec.tasks[0].template.metadata.{kind}["sidecar.istio.io/inject"]'
    warned(pytorch_job(tasks=[task("master", template=pod)]), path, "Istio")
