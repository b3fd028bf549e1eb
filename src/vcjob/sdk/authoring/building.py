"""`vcjob.pytorch_job()`: a Job from a few Python arguments.

Users call it; `script_job` and `vcjob init` are built on it. It returns a plain dictionary that is not checked yet:
`load` and `run` do that. Arguments that contradict each other raise UserError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from os import PathLike, fspath
from typing import Any

from vcjob.errors import UserError
from vcjob.sdk.authoring.functions import LAUNCHER, function_name, function_program
from vcjob.sdk.authoring.names import job_name
from vcjob.spec.job import API_VERSION, KIND
from vcjob.spec.scalars import command_words, escape_references
from vcjob.wellknown.environment import FUNCTION

DEFAULT_IMAGE = "pytorch/pytorch:latest"
GPU = "nvidia.com/gpu"


def pytorch_job(
    name: str | Callable[..., object],
    *,
    function: Callable[..., object] | None = None,
    parameters: Mapping[str, object] | None = None,
    script: str | PathLike[str] | None = None,
    command: str | Sequence[str] | None = None,
    args: Sequence[str] = (),
    image: str | None = None,
    workers: int = 1,
    gpus: int = 0,
    cpus: int | float | str | None = None,
    memory: str | None = None,
    shared_memory: str | None = None,
    nproc_per_node: int | str | None = None,
    env: Mapping[str, object] | None = None,
    wait_for_master: bool | int = False,
    port: int | None = None,
    restarts: int = 0,
    working_dir: str | None = None,
    volumes: Mapping[str, str] | None = None,
    namespace: str | None = None,
    queue: str | None = None,
    priority_class: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A Job of one master and `workers` workers that all run the same program.

    The result is a plain dictionary: `vcjob.validate`, `vcjob.render` and the other functions accept it, and
    `vcjob.to_yaml` writes it as a file.

    name: the name of the Job; a function in its place is the `function`, and the Job is named after it.
    function: a Python function that every rank calls with `parameters`. Its source is shipped in the Job, with the
    functions, classes and plain values of the same file or notebook that it uses; other modules must be in the image.
    script: a Python file; it runs under `python`, or under `torchrun` if `nproc_per_node` is set.
    command: what to run instead of a script; a string is split as a shell would. `args` follow either.
    image: the image on a cluster; on this machine no image is used.
    gpus, cpus, memory: the resources of each pod. shared_memory: the size of /dev/shm (a DataLoader needs it).
    nproc_per_node: processes in each pod, a number, "gpu", "cpu" or "auto"; torchrun then needs no arguments.
    wait_for_master: workers wait until the master listens; a number is the timeout in seconds.
    restarts: how often the whole Job starts again after a rank has failed.
    volumes: existing volume claims by the path where they are mounted.

    >>> job = pytorch_job("hello", script="train.py", workers=3, gpus=1)
    >>> job["spec"]["tasks"][1]["replicas"], job["spec"]["tasks"][1]["template"]["spec"]["containers"][0]["command"]
    (3, ['python', 'train.py'])
    """
    if not isinstance(name, str):
        function = name
        name = job_name(function_name(function), module=True)
    if workers < 0:
        raise UserError(
            f"workers is {workers}", hint="it is the number of pods in addition to the master: 0 or more"
        )
    if restarts < 0:
        raise UserError(
            f"restarts is {restarts}", hint="it is the number of restarts after a failure: 0 or more"
        )
    if isinstance(args, str):
        raise UserError("args is one text", hint=f"give a list of words, such as {args.split()}")
    if function is None and parameters is not None:
        raise UserError(
            "parameters are given without a function", hint="use `args` for a script or a command"
        )
    container = _container(
        script=script,
        command=command,
        function=function,
        args=args,
        nproc_per_node=nproc_per_node,
        image=image or DEFAULT_IMAGE,
    )
    container |= _given(workingDir=working_dir, resources=_resources(gpus, cpus, memory))
    values = {key: _text(value) for key, value in (env or {}).items()}
    if function is not None:
        values[FUNCTION] = escape_references(function_program(function, parameters))
    if values:
        container["env"] = [{"name": key, "value": value} for key, value in values.items()]
    pod: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    if shared_memory is not None:
        container["volumeMounts"] = [{"name": "shared-memory", "mountPath": "/dev/shm"}]  # noqa: S108 - a place inside the pod
        pod["volumes"] = [
            {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": shared_memory}}
        ]

    spec: dict[str, Any] = {
        "plugins": {"pytorch": _plugin_arguments(port, wait_for_master, nproc_per_node)},
        **_given(queue=queue, priorityClassName=priority_class),
    }
    if volumes:
        spec["volumes"] = [{"mountPath": path, "volumeClaimName": claim} for path, claim in volumes.items()]
    if restarts:
        # maxRetry counts runs, not restarts.
        spec |= {"maxRetry": restarts + 1, "policies": [{"event": "PodFailed", "action": "RestartJob"}]}
    spec["tasks"] = [_task("master", 1, pod)]
    if workers:
        spec["tasks"].append(_task("worker", workers, pod))
    metadata = _given(
        name=name,
        namespace=namespace,
        labels=dict(labels) if labels else None,
        annotations=dict(annotations) if annotations else None,
    )
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def _container(
    *,
    script: str | PathLike[str] | None,
    command: str | Sequence[str] | None,
    function: Callable[..., object] | None,
    args: Sequence[str],
    nproc_per_node: int | str | None,
    image: str,
) -> dict[str, Any]:
    given = [
        key
        for key, value in (("script", script), ("command", command), ("function", function))
        if value is not None
    ]
    if len(given) > 1:
        raise UserError(f"both {' and '.join(given)} are given", hint="give one of them")
    if function is not None:
        words = ["python", "-c", LAUNCHER, f"{function_name(function)}.py"]
        words = words if nproc_per_node is None else ["torchrun", "--no-python", *words]
    elif script is not None:
        words = ["python" if nproc_per_node is None else "torchrun", fspath(script)]
    elif isinstance(command, str):
        words = command_words(command, "command")
    else:
        words = list(command or ())
    container: dict[str, Any] = {"name": "pytorch", "image": image}
    if words:
        container["command"] = [*words, *args]
    elif args:
        container["args"] = list(args)
    return container


def _plugin_arguments(
    port: int | None, wait_for_master: bool | int, nproc_per_node: int | str | None
) -> list[str]:
    arguments = [] if port is None else [f"--port={port}"]
    if wait_for_master is not False:
        arguments.append("--wait-master-enabled=true")
        if wait_for_master is not True:
            arguments.append(f"--wait-master-timeout={wait_for_master}")
    if nproc_per_node is not None:
        # Volcano stops reading at an argument that it does not know, so ours come last.
        arguments.append(f"--nproc-per-node={nproc_per_node}")
    return arguments


def _resources(gpus: int, cpus: int | float | str | None, memory: str | None) -> dict[str, Any] | None:
    requests = _given(cpu=None if cpus is None else str(cpus), memory=memory)
    resources = {"requests": requests} if requests else {}
    if gpus:
        resources["limits"] = {GPU: gpus}
    return resources or None


def _task(name: str, replicas: int, pod: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "replicas": replicas, "template": {"spec": deepcopy(pod)}}


def _given(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _text(value: object) -> str:
    """A value of an environment variable: `True` is `true`, as in YAML."""
    return str(value).lower() if isinstance(value, bool) else str(value)
