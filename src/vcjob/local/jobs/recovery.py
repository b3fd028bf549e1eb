"""Settles runs whose supervisor was killed: ends what is left of them and writes the result.

Every verb that reads a status calls `settle` first, from any shell; the first one to find the loss writes the result,
and the others read it. `pods_of` is for showing runs whose record of pods is damaged. Where the store can only be read,
the result is returned without being written.
"""

from __future__ import annotations

import contextlib
import os
import time

import msgspec

from vcjob.errors import RunDamaged, StoreError
from vcjob.lifecycle.status import Condition, Phase, State, Status
from vcjob.local.machine import files, process
from vcjob.local.run.run_dir import Event, RunDir
from vcjob.report.podstate import PodState, mark_lost
from vcjob.wellknown import reasons

REASON = reasons.SUPERVISOR_LOST
#: How long the shims of a lost run may take to end its containers and to save their last output, in seconds.
_LAST_OUTPUT = 2.0
_PAUSE = 0.01


def settle(run: RunDir) -> Status:
    """The status of a run at present. If its supervisor has been killed, what is left of the run is ended first."""
    try:
        status = run.observed_status()
        if _is_settled(run, status) or (run.supervised() and not run.being_settled()):
            return status
        try:
            with run.settling():
                return _settle(run, status)
        except StoreError:  # we may only read this store, or its disk is full
            status = run.status() or status
            return status if status.over else _after_loss(run, status, run.pods())
    except RunDamaged as error:
        return _with_damaged_status(run, error)


def _is_settled(run: RunDir, status: Status) -> bool:
    """Whether nothing is left to do: it is suspended, or it is over and the cleanup at its end was completed."""
    return status.phase is Phase.ABORTED or (status.over and not run.has_environment())


def _with_damaged_status(run: RunDir, error: RunDamaged) -> Status:
    """A supervisor writes the file again with its next change; otherwise how the run ended is unknown."""
    phase = Phase.RUNNING
    if not run.supervised() or run.being_settled():
        phase = Phase.FAILED
        with contextlib.suppress(StoreError), run.settling():  # a store that we may only read
            lock = run.lock()
            if lock is not None:
                try:
                    sweep(run)
                finally:
                    os.close(lock)
    return Status(state=State(phase, reasons.STATUS_DAMAGED, f"{error.message}; {error.hint}"))


def pods_of(run: RunDir) -> list[PodState]:
    """The record of a run's pods; where it is damaged, the pods that have left logs."""
    pods = run.pods()
    if "pods.json" in run.damage and not run.supervised():
        from vcjob.local.jobs import unrecorded_pods

        with contextlib.suppress(RunDamaged):
            unrecorded_pods.complete(run, run.job(), pods, 0)
        for pod in pods:
            mark_lost(pod, "the record of this pod is damaged: how it ended is unknown")
    return pods


def _settle(run: RunDir, status: Status) -> Status:
    lock = run.lock()
    if lock is None:
        return run.status() or status  # a supervisor has just begun
    try:
        status = run.status() or Status()
        if _is_settled(run, status):
            return status
        sweep(run)
        if not status.over:
            pods = run.pods()
            status = _after_loss(run, status, pods)
            run.write_pods(pods, durable=True)
            run.write_status(status)
            run.add_event(Event(time.time(), "Warning", REASON, status.state.message))
        for command in run.commands():
            run.forget_command(command.uid)
        run.reserve.release()
        run.forget_environment()
    finally:
        os.close(lock)
    return status


def sweep(*runs: RunDir) -> None:
    """Kill every process of these runs that is left; the caller holds their locks. Shims may save the last output first.

    By the marks in their environments, and by pid and start time for those that lost them (a warm rank has
    the environment of the server it was forked from).
    """
    known = [recorded for run in runs for recorded in _recorded_processes(run)]

    def left() -> list[int]:
        pids = set(process.marked(process.MARK_RUN, *(run.uid for run in runs)))
        pids.update(pid for pid, started in known if process.is_same(pid, started))
        return sorted(pids)

    from vcjob.local.pod.limits import Limits

    deadline = time.monotonic() + _LAST_OUTPUT
    while pids := left():
        if time.monotonic() > deadline or process.SHIM_NAME not in map(process.name_of, pids):
            process.kill_until_gone(left)
            break
        time.sleep(_PAUSE)
    for run in runs:
        Limits(run.uid).remove()


def _recorded_processes(run: RunDir) -> list[tuple[int, int]]:
    """Pid and start time of the containers as last recorded; none if the record cannot be read."""
    try:
        containers = [container for pod in run.pods() for container in pod.containers]
    except StoreError:
        return []
    return [(c.pid, c.pid_start) for c in containers if c.pid is not None and c.pid_start is not None]


def _after_loss(run: RunDir, status: Status, pods: list[PodState]) -> Status:
    # Loaded only here: every verb reads the status, and hardly ever is a supervisor lost.
    from vcjob.lifecycle.decide import decide
    from vcjob.lifecycle.observed import Observed
    from vcjob.local.jobs import unrecorded_pods
    from vcjob.local.supervisor import pod_facts

    now = time.time()
    try:
        job = run.job()
        unrecorded_pods.complete(run, job, pods, status.version)
    except RunDamaged:
        job = None
    observed = Observed()
    lost = 0
    for pod in pods:
        if not pod.finished:
            mark_lost(pod, "the job's supervisor was killed, and this pod with it")
            lost += 1
        if pod.deleted_at is None:
            observed.put(pod_facts.fact(pod))
    message = why_lost(run) or (
        f"the supervisor of this job was killed while it was {status.phase}; {lost} {'pod' if lost == 1 else 'pods'} ended with it"
    )
    failed = msgspec.structs.replace(
        status,
        state=State(Phase.FAILED, REASON, message, now),
        conditions=(*status.conditions, Condition(Phase.FAILED, now)),
        finished=now,
        restarting=None,
    )
    return decide(job, failed, observed, now).status if job else failed


def why_lost(run: RunDir) -> str:
    """What the supervisor itself recorded: a store that cannot be written, or an error of its own."""
    trouble = run.trouble()
    if trouble:
        return trouble
    lines = (
        (files.read_bytes(run.path("supervisor.log")) or b"").decode(errors="replace").strip().splitlines()
    )
    return f"the supervisor of this job ended: {lines[-1]}" if lines else ""
