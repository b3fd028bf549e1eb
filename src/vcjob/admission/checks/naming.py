"""Checks of the names of the Job, of its tasks, and of the objects that are created from them.

`admission.review` calls `check`. A name must also be valid for the pods, the Service and the labels that are made
from it, so these rules follow `spec.names` and the plugin svc. Whether a name is in use is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator

from vcjob.plugins import registry
from vcjob.spec import names
from vcjob.spec.job import BackendName, Job
from vcjob.spec.problem import Path, Problem, error
from vcjob.spec.wording import show

#: `<job>-svc` names a volume, which has at most 63 characters.
MAX_JOB_NAME = names.LABEL_LENGTH - len("-svc")
#: What the API server appends to `generateName`.
_SUFFIX = "xxxxx"


def check(job: Job, backend: BackendName | None) -> Iterator[Problem]:
    where: Path = ("metadata", "name")
    name = job.name
    if not name and job.metadata.generate_name:
        where, name = ("metadata", "generateName"), job.metadata.generate_name + _SUFFIX
        if backend != "cluster":
            yield error(
                where, "generateName works on a cluster only", "write `name` instead of `generateName`"
            )
    if not name:
        yield error(where, "the Job has no name", "add `name: my-job` under `metadata`")
        return
    bad_name = _job_name(job, name)
    if bad_name:
        yield error(where, f"the name `{show(name)}` {bad_name}", "choose another name")
    if job.metadata.namespace and (reason := names.dns_label(job.metadata.namespace)):
        yield error(
            ("metadata", "namespace"),
            f"the namespace `{show(job.metadata.namespace)}` {reason}",
            "use the name of an existing namespace",
        )
    if len(job.spec.queue or "") > names.LABEL_LENGTH:
        yield error(
            ("spec", "queue"),
            f"the name of the queue has more than {names.LABEL_LENGTH} characters, so it cannot be a label of the pods",
            "use a queue with a shorter name",
        )
    yield from _tasks(job, None if bad_name else name)


def _job_name(job: Job, name: str) -> str | None:
    if not registry.uses(job, "svc"):
        return names.dns_subdomain(name) or names.label_value(name)
    if "." in name:
        return "contains dots, so it cannot be the name of the Service by which the pods find each other"
    reason = names.service_name(name)
    if reason is None and len(name) > MAX_JOB_NAME:
        return f"has {len(name)} characters; at most {MAX_JOB_NAME} are allowed, because `<job>-svc` must be a valid name"
    return reason


def _tasks(job: Job, name: str | None) -> Iterator[Problem]:
    """The names of the tasks, and those of their last pods where the name of the Job is valid."""
    for number, task in enumerate(job.tasks):
        where: Path = ("spec", "tasks", number, "name")
        if reason := names.dns_label(task.name):
            yield error(
                where, f"the task name `{show(task.name)}` {reason}", f"it should match {names.DNS_LABEL}"
            )
            continue
        last = f"{name}-{task.name}-{max(task.replicas - 1, 0)}"
        if name is not None and len(last) > names.LABEL_LENGTH:
            over = len(last) - names.LABEL_LENGTH
            yield error(
                where,
                f"the name of the last pod, `{show(last)}`, would have {len(last)} characters; at most {names.LABEL_LENGTH} are allowed",
                f"shorten the name of the Job or of the task by {over} characters",
            )
