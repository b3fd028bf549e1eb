"""Streams of the two views: changes of the job list, and changes of one job.

Each is a generator that runs in a thread of its own (see `streams`) and keeps what it sent last, so that a page of
a thousand ranks gets the ranks that changed and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from vcjob.errors import BackendError
from vcjob.sdk.backend import Backend
from vcjob.sdk.handle import Handle
from vcjob.ui import jobs
from vcjob.ui.diagnosing import Diagnosis
from vcjob.ui.history import History
from vcjob.ui.producers.listing import JobList
from vcjob.ui.producers.pacing import KeptEvents, pause_after
from vcjob.ui.streams import TROUBLE_SECONDS, Produced

LIST_SECONDS = 2.0
#: Of a job that is over only its name may change hands: another run may begin.
JOB_SECONDS, OVER_SECONDS = 1.0, 5.0
#: How long the ranks' use is measured, and the least time between two measurements.
METER_SECONDS, METER_PAUSE = 0.3, 2.0


def job_list(backend: Backend, namespace: str | None) -> Iterator[Produced]:
    """The jobs, whenever they change; before them "namespace" where those of a single one may be listed."""
    listing, only = JobList(backend, namespace), ""
    sent: list[dict[str, Any]] | None = None
    pause = LIST_SECONDS

    def read() -> Iterator[Produced]:
        nonlocal sent, pause, only
        began = time.monotonic()
        found = listing.read()
        pause = pause_after(time.monotonic() - began, LIST_SECONDS, backend.name)
        if listing.only != only:
            only = listing.only
            yield "namespace", {"namespace": only, "message": listing.note}
        if found != sent:
            sent = found
            yield "jobs", found

    return _repeated(read, lambda: pause)


def one_job(backend: Backend, namespace: str, name: str, *, read_only: bool = False) -> Iterator[Produced]:
    """First everything, then the parts that changed; of pods only those that changed or are gone.

    With `read_only`, nothing is written, not even the progress into a Job of a cluster. A job that is started again
    under its name is a new run, with a new uid: its history begins again.
    """
    sent: dict[str, Any] = {}
    pods: dict[str, dict[str, Any]] = {}
    history, meter, uid = History(read_only=read_only), Meter(), ""
    diagnosis, events, pause = Diagnosis(hangs=not read_only), KeptEvents(), JOB_SECONDS

    def read() -> Iterator[Produced]:
        nonlocal history, uid, diagnosis, events
        began = time.monotonic()
        job = backend.find(name, namespace)
        if job.uid != uid:
            history.close()
            history, uid = History(read_only=read_only), job.uid
            diagnosis, events = Diagnosis(hangs=not read_only), KeptEvents()
        with job.one_read(events.kept()):
            yield from changes(job, began)

    def changes(job: Handle, began: float) -> Iterator[Produced]:
        nonlocal pods, pause
        events.keep(job)
        found = jobs.detail(job, diagnosis)
        spent = time.monotonic() - began
        now = {pod["uid"]: pod for pod in found.pop("pods")}
        changed = [pod for uid, pod in now.items() if pods.get(uid) != pod]
        gone = [uid for uid in pods if uid not in now]
        if changed or gone or not sent:
            yield "pods", {"changed": changed, "gone": gone, "all": not sent}
        pods = now
        history.poll(job, {pod.get("rank") for pod in now.values()})
        found["history"] = history.points()
        for part, value in found.items():
            if part not in sent or sent[part] != value:
                sent[part] = value
                yield part, value
        done = job.done
        pause = pause_after(spent, OVER_SECONDS if done else JOB_SECONDS, job.backend)
        usage = None if done else meter.read(job)
        if usage is not None:
            yield "usage", usage

    try:
        yield from _repeated(read, lambda: pause)
    finally:
        history.close()


class Meter:
    """What the ranks of a job use, measured now and then: at most a twentieth of the time is spent on it."""

    def __init__(self) -> None:
        self._next = 0.0

    def read(self, job: Handle) -> dict[str, Any] | None:
        """None while it is too early for the next measurement."""
        began = time.monotonic()
        if began < self._next:
            return None
        found = jobs.usage(job, METER_SECONDS)
        ended = time.monotonic()
        self._next = ended + max(METER_PAUSE, 20 * (ended - began - METER_SECONDS))
        return found


def _repeated(read: Callable[[], Iterator[Produced]], pause: Callable[[], float]) -> Iterator[Produced]:
    """Everything that `read` yields, again and again after a `pause`; a cluster that does not answer is asked again later."""
    failed = False
    while True:
        try:
            yield from read()
        except BackendError as error:
            failed = True
            yield "trouble", {"message": error.message, "hint": error.hint}
            yield TROUBLE_SECONDS
            continue
        if failed:
            failed = False
            yield "trouble", None
        yield pause()
