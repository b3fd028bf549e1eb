"""Converts a Kubeflow PyTorchJob (kubeflow.org/v1) into a Volcano Job.

`convert` calls it for each such document. What has no equivalent is not an error but a note for the user; UserError
is raised for a document that has no replicas at all or whose fields have other types.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vcjob.errors import UserError
from vcjob.sdk.authoring.foreign_fields import (
    Fields,
    Note,
    mapping_at,
    metadata_of,
    note_processes,
    runs_torchrun,
)
from vcjob.spec.document import copied
from vcjob.spec.job import API_VERSION, KIND

_PORT_NAME = "pytorchjob-port"
_DEFAULT_PORT = 23456
#: Kubeflow's `restartPolicy: ExitCode` starts a pod again after the exit codes 128 to 255. A policy has one exit code, so
#: that only those that occur get one: the signals up to SIGTERM, and 255, which is `sys.exit(-1)`.
_RETRYABLE = (*range(128, 144), 255)


def convert_pytorchjob(document: dict[str, Any], notes: list[Note]) -> dict[str, Any]:
    """The Volcano Job; what has no equivalent is added to `notes`."""
    spec = Fields(document.get("spec"), "spec", notes)
    # Kubeflow takes them in any case.
    replicas = spec.inner("pytorchReplicaSpecs").renamed("Master", "Worker")
    elastic = spec.inner("elasticPolicy") if "elasticPolicy" in spec else None
    written = (spec, "nprocPerNode") if "nprocPerNode" in spec else None
    nproc = spec.take("nprocPerNode")
    converted, limit = _run_policy(spec.inner("runPolicy"))
    spec.rest()
    tasks = [
        _task(kind.lower(), replicas.inner(kind), limit) for kind in ("Master", "Worker") if kind in replicas
    ]
    replicas.rest()
    if not tasks:
        raise UserError("spec.pytorchReplicaSpecs has neither Master nor Worker", hint="it needs one of them")
    if elastic is not None:
        written = (elastic, "nProcPerNode") if "nProcPerNode" in elastic else written
        nproc = elastic.take("nProcPerNode", nproc or "auto")
        _add_max_restarts(tasks, elastic.take("maxRestarts"))
        elastic.take("standalone")
        for name in ("rdzvBackend", "rdzvPort", "rdzvHost", "rdzvId", "rdzvConf"):
            if elastic.take(name) is not None:
                elastic.note(
                    name, "was left out: the pytorch plugin gives every rank the address of the master"
                )
        for name in ("minReplicas", "maxReplicas"):
            if elastic.take(name) is not None:
                elastic.note(name, "was left out: the number of ranks does not change while a Job runs")
        elastic.rest()
    if any(runs_torchrun(words) for task in tasks for words in _commands(task)):
        nproc = "auto" if nproc is None else nproc  # Kubeflow's default
    elif written is not None:
        note_processes(*written, nproc)
    if tasks[0]["name"] == "master":  # a PyTorchJob is complete when its master is
        tasks[0].setdefault("policies", []).append({"event": "TaskCompleted", "action": "CompleteJob"})
    arguments = _plugin_arguments(tasks, nproc)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata_of(document, notes),
        "spec": {**converted, "plugins": {"pytorch": arguments}, "tasks": tasks},
    }


def _run_policy(policy: Fields) -> tuple[dict[str, Any], int | None]:
    """The fields of the Job's spec, and how often a pod may be restarted."""
    spec: dict[str, Any] = {}
    for name in ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "suspend"):
        if name in policy:
            spec[name] = policy.take(name)
    scheduling = policy.inner("schedulingPolicy")
    for theirs, ours in (
        ("queue", "queue"),
        ("priorityClass", "priorityClassName"),
        ("minAvailable", "minAvailable"),
    ):
        if theirs in scheduling:
            spec[ours] = scheduling.take(theirs)
    scheduling.rest()
    clean = policy.take("cleanPodPolicy", "Running")
    if clean != "Running":
        policy.note(
            "cleanPodPolicy", f"`{clean}` was left out: pods that still run are ended, finished ones are kept"
        )
    limit = policy.take("backoffLimit")
    policy.rest()
    return spec, limit


def _task(name: str, replica: Fields, limit: int | None) -> dict[str, Any]:
    template = copied(replica.mapping("template"))
    template["spec"] = mapping_at(f"{replica.path}.template.spec", template.get("spec"))
    restart = replica.take("restartPolicy", "OnFailure")
    task: dict[str, Any] = {"name": name, "replicas": replica.take("replicas", 1), "template": template}
    if restart == "ExitCode":
        replica.note(
            "restartPolicy",
            "`ExitCode` became restartPolicy Never, and RestartPod after exit codes 128 to 143 and 255; "
            "Kubeflow restarts the pod after 144 to 254 too",
        )
        restart = "Never"
        task["policies"] = [{"exitCode": code, "action": "RestartPod"} for code in _RETRYABLE]
    template["spec"]["restartPolicy"] = restart
    if limit is not None:
        task["maxRetry"] = limit
    replica.rest()
    return task


def _containers(task: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in _list(task["template"]["spec"].get("containers")) if isinstance(each, dict)]


def _list(value: Any) -> list[Any]:
    """The list, or an empty one in place of anything else, which is reported when the new Job is checked."""
    return value if isinstance(value, list) else []


def _commands(task: dict[str, Any]) -> Iterator[list[object]]:
    for container in _containers(task):
        yield [*_list(container.get("command")), *_list(container.get("args"))]


def _add_max_restarts(tasks: list[dict[str, Any]], restarts: object) -> None:
    """torchrun reads its options from variables."""
    if restarts is None:
        return
    for task in tasks:
        for container in _containers(task):
            if container.get("env") is None:
                container["env"] = []
            _list(container["env"]).append({"name": "PET_MAX_RESTARTS", "value": str(restarts)})


def _plugin_arguments(tasks: list[dict[str, Any]], nproc: object) -> list[str]:
    arguments = []
    if tasks[0]["name"] == "worker":  # one task has all ranks, and its first pod is the master
        arguments += ["--master=worker", "--worker=worker"]
    ports = [
        port.get("containerPort")
        for container in _containers(tasks[0])
        for port in _list(container.get("ports"))
        if isinstance(port, dict) and port.get("name") == _PORT_NAME
    ]
    if ports and ports[0] != _DEFAULT_PORT:
        arguments.append(f"--port={ports[0]}")
    if nproc is not None:
        arguments.append(f"--nproc-per-node={nproc}")
    return arguments
