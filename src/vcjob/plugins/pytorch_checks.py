"""What the pytorch plugin refuses or warns about in a Job."""

from __future__ import annotations

from collections.abc import Iterator

from vcjob.plugins.hosts import own_hostname, subdomain
from vcjob.plugins.pytorch_options import PytorchOptions
from vcjob.spec.job import Job, Task
from vcjob.spec.problem import Path, Problem, error, warning

ARGUMENTS: Path = ("spec", "plugins", "pytorch")
INJECT = "sidecar.istio.io/inject"


def check_job(job: Job, options: PytorchOptions) -> Iterator[Problem]:
    master, worker = job.task(options.master), job.task(options.worker)
    yield from _missing_tasks(job, options)
    if master is not None and not options.homogeneous:
        yield from _one_master(job, master, worker)
    yield from _shared_hostnames(job, options)
    yield from _endless_restarts(job, options)
    if not options.disable_istio_sidecar:
        yield from _sidecars(job)


def _missing_tasks(job: Job, options: PytorchOptions) -> Iterator[Problem]:
    if job.task(options.master) is None:
        yield error(
            _place(options, "master"),
            f"there is no task named `{options.master}` to be the master, so no rank would find the others",
            _task_hint(job, "master", options.master),
        )
    if "worker" in options.given and not options.homogeneous and job.task(options.worker) is None:
        yield error(
            _place(options, "worker"),
            f"`--worker={options.worker}` names no task of this Job",
            _task_hint(job, "worker", options.worker),
        )


def _place(options: PytorchOptions, flag: str) -> Path:
    return (*ARGUMENTS, options.given[flag]) if flag in options.given else ARGUMENTS


def _task_hint(job: Job, role: str, wanted: str) -> str:
    names = [task.name for task in job.tasks]
    if len(names) == 1 and role == "master":
        # The one task there is can be both, which is what a Job of equal replicas means.
        return f"rename the task to {wanted}, or write --master={names[0]} and --worker={names[0]}: replica 0 is the master then"
    return f"write --{role}=NAME with one of: {', '.join(names)}" if names else f"add a task named {wanted}"


def _one_master(job: Job, master: Task, worker: Task | None) -> Iterator[Problem]:
    where: Path = ("spec", "tasks", job.tasks.index(master), "replicas")
    if master.replicas > 1:
        yield error(
            where,
            f"{master.replicas} masters would all be rank 0",
            f"write replicas: 1, or make it a Job of equal replicas by --master={master.name} and --worker={master.name}",
        )
    if master.replicas == 0 and worker is not None and worker.replicas > 0:
        yield error(where, "without a master pod the workers wait for rank 0 in vain", "write replicas: 1")


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
                f"{task.replicas} ranks would share the name `{hostname}`",
                f"remove it: each pod is named {job.name}-{task.name}-INDEX then",
            )
        taken = seen.setdefault((hostname, subdomain(job, task)), task.name)
        if taken != task.name:
            yield error(
                where, f"task `{taken}` has the hostname `{hostname}` already", "give each its own, or none"
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


def _sidecars(job: Job) -> Iterator[Problem]:
    for number, task in enumerate(job.tasks):
        for kind in ("labels", "annotations"):
            found = (task.template.get("metadata") or {}).get(kind) or {}
            if str(found.get(INJECT)).lower() == "true":
                yield warning(
                    ("spec", "tasks", number, "template", "metadata", kind, INJECT),
                    "an Istio sidecar takes over the connections between the ranks, and the rendezvous fails",
                    "add the argument --disable-istio-sidecar to pytorch, at the end of its list",
                )
