"""Kubeflow's PyTorchJob and TrainJob as Volcano Jobs: what they become, and what is reported."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vcjob


def converted(document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The one Job, which must be valid, and the notes by path."""
    result = vcjob.convert_jobs(vcjob.to_yaml(document))
    (job,) = result.documents
    assert [problem for problem in vcjob.validate(job) if problem.severity == "error"] == []
    return job, dict(result.notes)


def replica(number: int = 1, restart: str | None = "Never", **container: Any) -> dict[str, Any]:
    template = {
        "spec": {
            "containers": [{"name": "pytorch", "image": "a", "command": ["python", "a.py"], **container}]
        }
    }
    return {"replicas": number, "template": template, **({"restartPolicy": restart} if restart else {})}


def pytorchjob(**spec: Any) -> dict[str, Any]:
    replicas = {"Master": replica(), "Worker": replica(3)}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "mnist", "namespace": "team", "labels": {"a": "b"}, "uid": "1", "generation": 4},
        "spec": {"pytorchReplicaSpecs": replicas, **spec},
        "status": {"conditions": []},
    }


def test_a_pytorchjob_becomes_a_job_with_the_same_ranks_that_ends_with_its_master() -> None:
    job, notes = converted(pytorchjob())
    assert notes == {}
    assert job["metadata"] == {"name": "mnist", "namespace": "team", "labels": {"a": "b"}}
    assert job["spec"]["plugins"] == {"pytorch": []}
    master, worker = job["spec"]["tasks"]
    assert (master["name"], master["replicas"], worker["name"], worker["replicas"]) == (
        "master",
        1,
        "worker",
        3,
    )
    assert (
        master["policies"] == [{"event": "TaskCompleted", "action": "CompleteJob"}]
        and "policies" not in worker
    )
    assert master["template"]["spec"]["restartPolicy"] == "Never"
    assert master["template"]["spec"]["containers"][0]["command"] == ["python", "a.py"]


def test_the_run_policy_becomes_fields_of_the_job() -> None:
    job, notes = converted(
        pytorchjob(
            runPolicy={
                "ttlSecondsAfterFinished": 60,
                "activeDeadlineSeconds": 600,
                "suspend": True,
                "backoffLimit": 4,
                "cleanPodPolicy": "Running",
                "schedulingPolicy": {"queue": "research", "minAvailable": 2, "priorityClass": "high"},
            }
        )
    )
    assert notes == {}
    spec = job["spec"]
    names = (
        "ttlSecondsAfterFinished",
        "activeDeadlineSeconds",
        "suspend",
        "queue",
        "minAvailable",
        "priorityClassName",
    )
    assert [spec[name] for name in names] == [60, 600, True, "research", 2, "high"]
    assert [task["maxRetry"] for task in spec["tasks"]] == [4, 4]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"runPolicy": {"cleanPodPolicy": "All"}}, "spec.runPolicy.cleanPodPolicy"),
        ({"runPolicy": {"managedBy": "x"}}, "spec.runPolicy.managedBy"),
        (
            {"runPolicy": {"schedulingPolicy": {"minResources": {}}}},
            "spec.runPolicy.schedulingPolicy.minResources",
        ),
        ({"elasticPolicy": {"minReplicas": 1}}, "spec.elasticPolicy.minReplicas"),
        ({"elasticPolicy": {"rdzvBackend": "c10d"}}, "spec.elasticPolicy.rdzvBackend"),
        ({"elasticPolicy": {"metrics": []}}, "spec.elasticPolicy.metrics"),
        ({"somethingNew": 1}, "spec.somethingNew"),
    ],
)
def test_what_has_no_equivalent_is_reported(spec: dict[str, Any], path: str) -> None:
    _, notes = converted(pytorchjob(**spec))
    assert list(notes) == [path] and "left out" in notes[path]


def test_torchrun_gets_the_number_of_processes() -> None:
    assert converted(pytorchjob(nprocPerNode="2"))[0]["spec"]["plugins"]["pytorch"] == ["--nproc-per-node=2"]
    torchrun = {"Master": replica(command=["torchrun", "a.py"])}
    job, _ = converted(pytorchjob(pytorchReplicaSpecs=torchrun))
    assert job["spec"]["plugins"]["pytorch"] == ["--nproc-per-node=auto"]


def test_a_number_of_processes_without_torchrun_is_reported() -> None:
    """With this argument the plugin leaves LOCAL_RANK to torchrun, so a plain script would miss it."""
    _, notes = converted(pytorchjob(nprocPerNode="1"))
    assert list(notes) == ["spec.nprocPerNode"] and "runs torchrun" in notes["spec.nprocPerNode"]
    torchrun = {"Master": replica(command=["torchrun", "a.py"])}
    assert converted(pytorchjob(pytorchReplicaSpecs=torchrun, nprocPerNode="1"))[1] == {}
    assert list(converted(pytorchjob(nprocPerNode="2", elasticPolicy={}))[1]) == ["spec.nprocPerNode"]
    _, notes = converted(pytorchjob(elasticPolicy={"nProcPerNode": 2}))
    assert list(notes) == ["spec.elasticPolicy.nProcPerNode"]
    trainer = {"image": "a", "command": ["python", "a.py"], "numProcPerNode": 2}
    train = {**trainjob(), "spec": {"trainer": trainer}}
    assert "runs torchrun" in converted(train)[1]["spec.trainer.numProcPerNode"]
    trainer["command"] = ["torchrun", "a.py"]
    assert "spec.trainer.numProcPerNode" not in converted(train)[1]


def test_the_names_of_the_replicas_may_have_any_case() -> None:
    """Kubeflow corrects them, so they are in files that work there."""
    lower, _ = converted(pytorchjob(pytorchReplicaSpecs={"master": replica(), "WORKER": replica(3)}))
    assert lower == converted(pytorchjob())[0]
    _, notes = converted(pytorchjob(pytorchReplicaSpecs={"master": replica(), "Master": replica()}))
    assert list(notes) == ["spec.pytorchReplicaSpecs.master"]


def test_an_elastic_job_of_workers_has_a_worker_as_its_master() -> None:
    workers = {"Worker": replica(2, command=["torchrun", "a.py"])}
    job, notes = converted(
        pytorchjob(pytorchReplicaSpecs=workers, elasticPolicy={"nProcPerNode": 4, "maxRestarts": 3})
    )
    assert notes == {}
    assert job["spec"]["plugins"]["pytorch"] == ["--master=worker", "--worker=worker", "--nproc-per-node=4"]
    (task,) = job["spec"]["tasks"]
    assert task["template"]["spec"]["containers"][0]["env"] == [{"name": "PET_MAX_RESTARTS", "value": "3"}]
    assert "policies" not in task


def test_the_port_and_restart_policies_are_kept() -> None:
    port = {"name": "pytorchjob-port", "containerPort": 29500}
    replicas = {"Master": replica(restart=None, ports=[port]), "Worker": replica(restart="ExitCode")}
    job, notes = converted(pytorchjob(pytorchReplicaSpecs=replicas))
    assert job["spec"]["plugins"]["pytorch"] == ["--port=29500"]
    master, worker = job["spec"]["tasks"]
    assert master["template"]["spec"]["restartPolicy"] == "OnFailure"
    assert worker["template"]["spec"]["restartPolicy"] == "Never"
    assert list(notes) == ["spec.pytorchReplicaSpecs.Worker.restartPolicy"]


def test_a_pod_is_restarted_after_the_exit_codes_of_kubeflow_and_the_rest_is_reported() -> None:
    job, notes = converted(pytorchjob(pytorchReplicaSpecs={"Master": replica(restart="ExitCode")}))
    policies = job["spec"]["tasks"][0]["policies"]
    restarted = {each["exitCode"] for each in policies if each["action"] == "RestartPod"}
    assert restarted == {*range(128, 144), 255}
    assert "after 144 to 254 too" in notes["spec.pytorchReplicaSpecs.Master.restartPolicy"]


def trainjob() -> dict[str, Any]:
    trainer = {
        "image": "a", "command": ["torchrun", "a.py"], "args": ["--x"], "numNodes": 3, "numProcPerNode": 2,
        "env": [{"name": "A", "value": "1"}], "resourcesPerNode": {"limits": {"nvidia.com/gpu": 2}},
    }  # fmt: skip
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "mnist"},
        "spec": {
            "runtimeRef": {"name": "torch"},
            "trainer": trainer,
            "initializer": {},
            "labels": {"a": "b"},
        },
    }


def test_a_trainjob_becomes_a_job_and_its_runtime_is_reported() -> None:
    job, notes = converted(trainjob())
    assert set(notes) == {"spec.runtimeRef", "spec.initializer"}
    assert "in an init container" in notes["spec.initializer"]
    assert job["metadata"] == {"name": "mnist", "labels": {"a": "b"}}
    assert [task["replicas"] for task in job["spec"]["tasks"]] == [1, 2]
    container = job["spec"]["tasks"][1]["template"]["spec"]["containers"][0]
    assert container["command"] == ["torchrun", "a.py", "--x"]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 2}} and container["env"][0]["name"] == "A"


def test_a_trainjob_without_an_image_and_a_command_says_where_they_come_from() -> None:
    result = vcjob.convert_jobs(
        "kind: TrainJob\nmetadata: {name: a}\nspec: {runtimeRef: {name: torch-distributed}}\n"
    )
    paths = [note.path for note in result.notes]
    assert paths == ["spec.trainer.image", "spec.trainer.command", "spec.runtimeRef"]
    assert all("torch-distributed" in note.message for note in result.notes)


def test_overrides_of_pods_are_reported_with_their_place_in_a_job() -> None:
    train = trainjob()
    train["spec"]["podTemplateOverrides"] = [{"spec": {"nodeSelector": {"gpu": "h100"}}}]
    assert "into the templates of the tasks" in converted(train)[1]["spec.podTemplateOverrides"]


def test_what_a_job_file_may_hold_is_kept_and_other_objects_are_reported() -> None:
    text = vcjob.to_yaml(pytorchjob())
    result = vcjob.convert_jobs(
        f"{text}---\nkind: ConfigMap\nmetadata: {{name: c}}\n---\nkind: Service\nmetadata: {{name: s}}\n"
    )
    assert [document["kind"] for document in result.documents] == ["Job", "ConfigMap"]
    assert [note.path for note in result.notes] == ["Service s"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Job\nmetadata: {name: a}\n", "has no PyTorchJob"),
        ("kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {}}\n", "neither Master nor Worker"),
        ("kind: PyTorchJob\nspec: [1]\n", "spec must be a mapping"),
        ("kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: 3}}\n", "Master must be a mapping"),
        (
            "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: x}}}\n",
            "spec.pytorchReplicaSpecs.Master.template must be a mapping",
        ),
        ("kind: TrainJob\nspec: {trainer: {numNodes: two}}\n", "numNodes must be a number of at least 1"),
        ("kind: TrainJob\nspec: {labels: [a]}\n", "spec.labels must be a mapping"),
        ("kind: TrainJob\nspec: {trainer: {command: torchrun t.py}}\n", "trainer.command must be a list"),
        ("kind: List\nitems: 3\n", "items must be a list"),
        ("kind: List\nitems: []\n", "has no PyTorchJob"),
    ],
)
def test_what_cannot_be_converted_is_refused(text: str, message: str) -> None:
    with pytest.raises(vcjob.UserError) as refused:
        vcjob.convert_jobs(text)
    assert message in refused.value.message


def test_the_items_of_a_list_are_converted() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [pytorchjob(), trainjob()]}
    result = vcjob.convert_jobs(vcjob.to_yaml(listed))
    assert [(document["kind"], document["metadata"]["name"]) for document in result.documents] == [
        ("Job", "mnist"),
        ("Job", "mnist"),
    ]


@pytest.mark.parametrize(
    "container",
    [{"command": 5}, {"command": "torchrun a.py"}, {"args": {"a": 1}}, {"ports": 5}, {"env": {"A": 1}}, {"env": 3}],
)  # fmt: skip
def test_a_wrong_type_in_a_container_is_reported_in_the_new_job(container: dict[str, Any]) -> None:
    spec = pytorchjob(pytorchReplicaSpecs={"Master": replica(**container)}, elasticPolicy={"maxRestarts": 3})
    (job,) = vcjob.convert_jobs(vcjob.to_yaml(spec)).documents
    (problem,) = (problem for problem in vcjob.validate(job) if problem.severity == "error")
    assert next(iter(container)) in problem.path


def paths(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*before, key)
        yield from paths(inner, (*before, key))


FULL = {
    "PyTorchJob": pytorchjob(
        pytorchReplicaSpecs={"Master": replica(env=[], args=["a"], ports=[{"name": "p", "containerPort": 1}])},
        nprocPerNode="2",
        elasticPolicy={"maxRestarts": 3, "minReplicas": 1},
        runPolicy={"backoffLimit": 1, "schedulingPolicy": {"queue": "q"}},
    ),
    "TrainJob": trainjob(),
}  # fmt: skip
JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1, 1.5, 2**62, "", "x", [], ["a"], [None], {}, {"a": None}, [{"name": []}]]
)


@given(kind=st.sampled_from(sorted(FULL)), data=st.data())
def test_a_wrong_value_anywhere_is_a_user_error_or_a_problem_of_the_new_job(
    kind: str, data: st.DataObject
) -> None:
    document = deepcopy(FULL[kind])
    for _ in range(data.draw(st.integers(1, 3))):
        where = data.draw(st.sampled_from([each for each in paths(document) if each != ("kind",)]))
        parent: Any = document
        for step in where[:-1]:
            parent = parent[step]
        parent[where[-1]] = deepcopy(data.draw(JUNK))
    try:
        result = vcjob.convert_jobs(vcjob.to_yaml(document))
    except vcjob.UserError:
        return
    for job in result.documents:
        vcjob.validate(job)


def test_text_that_is_not_yaml_is_refused_with_its_problems() -> None:
    with pytest.raises(vcjob.InvalidJob):
        vcjob.convert_jobs("kind: PyTorchJob\n  spec: [\n")
