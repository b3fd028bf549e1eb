"""`vcjob.render()`: the objects of Jobs, exactly as the controller creates them.

`vcjob render` and the page use it; both backends use `placed` for the namespace of a Job. No cluster is contacted.
InvalidJob for a Job with errors, UserError for two different namespaces.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vcjob.errors import UserError
from vcjob.plan.gang import GangName
from vcjob.plan.plan import Plan
from vcjob.sdk.loading import Source, load
from vcjob.spec.job import Job


def render(
    source: Source,
    *,
    gang: GangName = "volcano",
    uid: str | None = None,
    namespace: str | None = None,
    allow_unknown: bool = False,
) -> list[dict[str, Any]]:
    """Every object that the Jobs of a source create, in the order of creation.

    gang: how pods are grouped for the scheduler. uid: the Job's uid, all zeros where there is none.
    namespace: for Jobs that name none.

    >>> [pod["metadata"]["name"] for pod in render("job.yaml") if pod["kind"] == "Pod"]
    ['hello-master-0']
    """
    jobs = load(source, allow_unknown=allow_unknown).jobs
    return [obj for plan in plans(jobs, gang=gang, uid=uid, namespace=namespace) for obj in plan.render()]


def plans(
    jobs: Iterable[Job],
    *,
    gang: GangName = "volcano",
    uid: str | None = None,
    namespace: str | None = None,
) -> list[Plan]:
    """The plans of Jobs, from which pods can be rendered one at a time."""
    return [Plan(placed(job, uid, namespace), gang=gang) for job in jobs]


def placed(job: Job, uid: str | None = None, namespace: str | None = None) -> Job:
    """The Job with the uid and the namespace that a cluster would have given it."""
    own = job.metadata.namespace
    if namespace and own and own != namespace:
        raise UserError(
            f"the Job {job.name} is for the namespace {own}, not {namespace}",
            hint="leave -n out, or the namespace in the Job",
        )
    given = {"uid": uid, "namespace": namespace}
    metadata = {**job.doc["metadata"], **{key: value for key, value in given.items() if value}}
    return Job({**job.doc, "metadata": metadata})
