"""The host names by which the pods of a Job find each other.

The plugins pytorch and svc write them into the pods, and the local supervisor resolves them to this machine. Pure
functions of the Job: they must give the same names on every backend.
"""

from __future__ import annotations

from vcjob.spec.job import Job, Task


def own_hostname(task: Task) -> str:
    """The hostname that the template itself sets, or an empty string."""
    return task.pod_spec.get("hostname") or ""


def subdomain(job: Job, task: Task) -> str:
    return task.pod_spec.get("subdomain") or job.name


def pod_name(job: Job, task: Task, index: object) -> str:
    return f"{job.name}-{task.name}-{index}"


def address(job: Job, task: Task, index: object) -> str:
    """The address of pod `index` of the task inside the namespace: `<hostname>.<subdomain>`."""
    return f"{own_hostname(task) or pod_name(job, task, index)}.{subdomain(job, task)}"


def task_hosts(job: Job, task: Task) -> list[str]:
    """All addresses of a task. The pods of a template with its own hostname share one."""
    return [address(job, task, index) for index in range(host_count(task))]


def host_count(task: Task) -> int:
    """How many different addresses the pods of a task have."""
    return min(task.replicas, 1) if own_hostname(task) else task.replicas


def sum_of_digits(count: int) -> int:
    """How many digits the numbers from 0 to `count` - 1 have together."""
    total, start, digits = 0, 0, 1
    while start < count:
        end = min(count, 10**digits)
        total += (end - start) * digits
        start, digits = end, digits + 1
    return total
