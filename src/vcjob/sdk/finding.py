"""`vcjob.find()` and `vcjob.jobs()`: the handle of one job by its name, or of all jobs.

They only choose the backend; how jobs are found is its business.
"""

from __future__ import annotations

from vcjob.sdk.backend import open_backend
from vcjob.sdk.handle import Handle
from vcjob.spec.job import BackendName


def find(
    name: str,
    *,
    namespace: str | None = None,
    on: BackendName | None = None,
    context: str | None = None,
    kubeconfig: str | None = None,
) -> Handle:
    """The newest run of the job of that name; on this machine also the run of that uid.

    on: the backend, "local" or "cluster". context, kubeconfig: which cluster, as kubectl takes them.

    >>> from vcjob import pytorch_job, run
    >>> run(pytorch_job("found", command="true", workers=0)).wait(60)
    'Completed'
    >>> find("found").phase
    'Completed'
    """
    return open_backend(on, context, kubeconfig).find(name, namespace)


def jobs(
    namespace: str | None = None,
    *,
    on: BackendName | None = None,
    context: str | None = None,
    kubeconfig: str | None = None,
    all_namespaces: bool = False,
) -> list[Handle]:
    """Every job, oldest first; on this machine the newest run of each.

    Without a namespace: on this machine those of all namespaces, on a cluster those of the context's own.

    >>> [handle.name for handle in jobs() if handle.phase == "Running"]
    []
    """
    return list(open_backend(on, context, kubeconfig).list(namespace, all_namespaces=all_namespaces))
