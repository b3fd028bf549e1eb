"""The jobs of a ground: all of them, or one by its name."""

from __future__ import annotations

import time

from vcjob.errors import NoSuchJob
from vcjob.lifecycle.status import Phase
from vcjob.local.jobs.recovery import settle
from vcjob.local.jobs.store import Store
from vcjob.local.run.run_dir import RunDir
from vcjob.sdk.grounds import BackendName, open_backend
from vcjob.sdk.handle import Handle
from vcjob.sdk.local_handle import LocalHandle


def find(
    name: str,
    *,
    namespace: str | None = None,
    on: BackendName | None = None,
    context: str | None = None,
    kubeconfig: str | None = None,
) -> Handle:
    """The newest run of the job of that name; on this machine also the run of that uid.

    on: the ground, "local" or "cluster". context, kubeconfig: which cluster, as kubectl takes them.
    """
    ground = open_backend(on, context, kubeconfig)
    if ground is not None:
        return ground.find(name, namespace)
    store = Store()
    by_uid = store.by_uid(name) if len(name) == 36 else None
    run = by_uid or store.current(name, namespace or "default")
    if _expired(run):
        store.delete(run)
        raise NoSuchJob(
            f"no job {name!r} here: it had ended, and its ttlSecondsAfterFinished is over",
            hint="`vcjob list` shows the jobs that are here",
        )
    return LocalHandle(run)


def jobs(
    namespace: str | None = None,
    *,
    on: BackendName | None = None,
    context: str | None = None,
    kubeconfig: str | None = None,
    all_namespaces: bool = False,
) -> list[Handle]:
    """Every job, oldest first; on this machine the newest run of each.

    Without a namespace: on this machine those of all, on a cluster those of the context's own.
    """
    ground = open_backend(on, context, kubeconfig)
    if ground is not None:
        return ground.jobs(namespace, all_namespaces=all_namespaces)
    store = Store()
    found = []
    for run in store.all(namespace):
        if _expired(run):
            store.delete(run)
        else:
            found.append(run)
    return [LocalHandle(run) for run in sorted(found, key=RunDir.created)]


def _expired(run: RunDir) -> bool:
    """Has it outlived the time that its spec gives it after its end?"""
    job = run.job()
    ttl = job.spec.ttl_seconds_after_finished
    if ttl is None or run.supervised():
        return False
    status = settle(run)
    ended = status.over or (status.phase is Phase.ABORTED and status.suspended_by != "spec")
    return ended and status.finished is not None and time.time() >= status.finished + ttl
