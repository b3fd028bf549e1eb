"""The jobs of this machine: all of them, or one by its name."""

from __future__ import annotations

import time

from vcjob.errors import NoSuchJob
from vcjob.lifecycle.status import Phase
from vcjob.local.recover import settle
from vcjob.local.run import Run
from vcjob.local.store import Store
from vcjob.sdk.handle import Handle


def find(name: str, *, namespace: str | None = None) -> Handle:
    """The newest run of the job of that name, or the run of that uid."""
    store = Store()
    by_uid = store.by_uid(name) if len(name) == 36 else None
    run = by_uid or store.current(name, namespace or "default")
    if _expired(run):
        store.delete(run)
        raise NoSuchJob(
            f"no job {name!r} here: it had ended, and its ttlSecondsAfterFinished is over",
            hint="`vcjob list` shows the jobs that are here",
        )
    return Handle(run)


def jobs(namespace: str | None = None) -> list[Handle]:
    """The newest run of every job, oldest first."""
    store = Store()
    found = []
    for run in store.all(namespace):
        if _expired(run):
            store.delete(run)
        else:
            found.append(run)
    return [Handle(run) for run in sorted(found, key=Run.created)]


def earlier(job: Handle) -> list[Handle]:
    """Earlier runs of the same name, newest first."""
    return [Handle(run) for run in Store().older(job.name, job.namespace)]


def _expired(run: Run) -> bool:
    """Has it outlived the time that its spec gives it after its end?"""
    job = run.job()
    ttl = job.spec.ttl_seconds_after_finished
    if ttl is None or run.supervised():
        return False
    status = settle(run)
    ended = status.over or (status.phase is Phase.ABORTED and status.suspended_by != "spec")
    return ended and status.finished is not None and time.time() >= status.finished + ttl
