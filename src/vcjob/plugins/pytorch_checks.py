"""The checks of the pytorch plugin: errors and warnings about the tasks that have ranks.

The plugin calls `check_job` once its arguments are parsed; `pytorch_options` checks the arguments themselves.
Problems are returned, never raised.
"""

from __future__ import annotations

from collections.abc import Iterator

from vcjob.plugins.flight_recorder import check_agent
from vcjob.plugins.hosts import own_hostname, subdomain
from vcjob.plugins.pytorch_options import PytorchOptions
from vcjob.plugins.wait import CONTAINER_NAME
from vcjob.spec.job import Job, Task
from vcjob.spec.problem import Path, Problem, error, warning
from vcjob.spec.wording import listed, show

ARGUMENTS: Path = ("spec", "plugins", "pytorch")
INJECT = "sidecar.istio.io/inject"


def check_job(job: Job, options: PytorchOptions) -> Iterator[Problem]:
    master, worker = job.task(options.master), job.task(options.worker)
    yield from _missing_tasks(job, options)
    if master is not None and not options.homogeneous:
        yield from _one_master(job, master, worker)
    yield from _shared_hostnames(job, options)
    yield from _endless_restarts(job, options)
    yield from _wait_container_names(job, options)
    if options.flight_recorder:
        names = (options.master, options.worker)
        yield from check_agent(job, [pair for pair in enumerate(job.tasks) if pair[1].name in names])
    if not options.disable_istio_sidecar:
        yield from _sidecars(job)


def _missing_tasks(job: Job, options: PytorchOptions) -> Iterator[Problem]:
    if job.task(options.master) is None:
        yield error(
            _place(options, "master"),
            f"there is no task named `{show(options.master)}` for the master, so the ranks could not find each other",
            _task_hint(job, "master", options.master),
        )
    if "worker" in options.given and not options.homogeneous and job.task(options.worker) is None:
        yield error(
            _place(options, "worker"),
            f"`--worker={show(options.worker)}` is not the name of a task of this Job",
            _task_hint(job, "worker", options.worker),
        )


def _place(options: PytorchOptions, flag: str) -> Path:
    return (*ARGUMENTS, options.given[flag]) if flag in options.given else ARGUMENTS


def _task_hint(job: Job, role: str, wanted: str) -> str:
    names = [task.name for task in job.tasks]
    if len(names) == 1 and role == "master":
        # A single task can be both master and worker.
        return (
            f"rename the task to {show(wanted)}, or write --master={names[0]} and --worker={names[0]}"
            " to make its replica 0 the master"
        )
    return (
        f"write --{role}=NAME with one of: {listed(names)}" if names else f"add a task named {show(wanted)}"
    )


def _one_master(job: Job, master: Task, worker: Task | None) -> Iterator[Problem]:
    where: Path = ("spec", "tasks", job.tasks.index(master), "replicas")
    if master.replicas > 1:
        yield error(
            where,
            f"{master.replicas} masters would all be rank 0",
            f"write replicas: 1, or use one task for all ranks with --master={master.name} and --worker={master.name}",
        )
    if master.replicas == 0 and worker is not None and worker.replicas > 0:
        yield error(where, "the workers need rank 0, but the master has no replicas", "write replicas: 1")


def _shared_hostnames(job: Job, options: PytorchOptions) -> Iterator[Problem]:
    seen: dict[tuple[str, str], str] = {}
    for number, task in enumerate(job.tasks):
        hostname = own_hostname(task)
        if task.name not in (options.master, options.worker) or not hostname:
            continue
        where: Path = ("spec", "tasks", number, "template", "spec", "hostname")
        if task.replicas > 1:
            yield error(
                where,
                f"{task.replicas} ranks would have the same hostname `{hostname}`",
                f"remove it, so that each pod is named {job.name}-{task.name}-INDEX",
            )
        taken = seen.setdefault((hostname, subdomain(job, task)), task.name)
        if taken != task.name:
            yield error(
                where,
                f"the task `{taken}` has the same hostname `{hostname}`",
                "change or remove one of them",
            )


def _endless_restarts(job: Job, options: PytorchOptions) -> Iterator[Problem]:
    for number, task in enumerate(job.tasks):
        policy = task.pod_spec.get("restartPolicy")
        if task.name not in (options.master, options.worker) or policy not in (None, "", "Always"):
            continue
        where: Path = ("spec", "tasks", number, "template", "spec")
        cause = "restartPolicy is Always" if policy else "restartPolicy is not set, which means Always"
        yield warning(
            (*where, "restartPolicy") if policy else where,
            f"{cause}: a rank that ends is started again even if it succeeded, so the Job cannot complete",
            "write `restartPolicy: Never` (or OnFailure) in the template of this task",
        )


def _wait_container_names(job: Job, options: PytorchOptions) -> Iterator[Problem]:
    for number, task in enumerate(job.tasks if options.wait_master_enabled else ()):
        for where, container in task.containers(number) if task.name == options.worker else ():
            # An init container of this name is used instead of the plugin's.
            if container.get("name") == CONTAINER_NAME and "containers" in where:
                yield error(
                    (*where, "name"),
                    f"`--wait-master-enabled` adds an init container of the name `{CONTAINER_NAME}`",
                    "rename this container",
                )


def _sidecars(job: Job) -> Iterator[Problem]:
    for number, task in enumerate(job.tasks):
        for kind in ("labels", "annotations"):
            found = (task.template.get("metadata") or {}).get(kind) or {}
            if str(found.get(INJECT)).lower() == "true":
                yield warning(
                    ("spec", "tasks", number, "template", "metadata", kind, INJECT),
                    "an Istio sidecar intercepts the connections between the ranks, so that the rendezvous fails",
                    "add --disable-istio-sidecar at the end of the arguments of pytorch",
                )
