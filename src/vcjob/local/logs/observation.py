"""`collect()`: an `Observation` of a run on this machine.

Called by the SDK's local handle; the supervisor's watch for hangs calls `observe_running` and `add_connections`. They
read the run folder and the sockets of the ranks, and change nothing. What cannot be read is left out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from vcjob.diagnosis.collect import counted_container, newest_attempts, observe
from vcjob.diagnosis.observation import EventObservation, Observation, PodObservation
from vcjob.lifecycle.status import Status
from vcjob.local.logs.rank_reports import read_reports
from vcjob.local.logs.tail import merged, read_tail
from vcjob.local.machine import connections
from vcjob.local.run.run_dir import RunDir
from vcjob.report.podstate import ContainerState, PodState
from vcjob.wellknown.annotations import MASTER_PORT

#: Enough for a chain of tracebacks and torchrun's table below it.
TAIL_LINES = 200
_EVENTS = 200


def collect(run: RunDir, status: Status, pods: list[PodState]) -> Observation:
    """Everything about a run, whether it waits, runs or is over."""
    observation = observe_running(run, status, pods, time.time())
    observation.events = [
        EventObservation(event.reason, event.message, event.type, at=event.time)
        for event in run.events()[-_EVENTS:]
    ]
    observation.hang_findings = run.findings()
    states = {pod.name: pod for pod in newest_attempts(pods)}
    for pod in observation.pods:
        if pod.pod in states:
            _add_output(run, pod, states[pod.pod])
    if status.over:
        observation.rank_states = [
            report.state
            for state in states.values()
            for report in read_reports(run.pod_folder(state.name, state.attempt))
        ]
    return observation


def observe_running(run: RunDir, status: Status, pods: list[PodState], now: float) -> Observation:
    """The Job and the pods of a run."""
    return observe("local", run.job(), status, pods, now)


def _add_output(run: RunDir, pod: PodObservation, state: PodState) -> None:
    container, ended = counted_container(state)
    if container is None or ended is None:
        return  # nothing has ended: what a rank prints while it runs is no evidence
    restart = container.restarts if container.ended is ended else max(0, container.restarts - 1)
    base = os.path.join(run.pod_folder(state.name, state.attempt), f"{container.name}.{restart}")
    if ended.exit_code == 0:
        return
    errors, output = (read_tail(f"{base}.{stream}", TAIL_LINES) for stream in ("err", "out"))
    pod.stderr, pod.stdout = (
        tail.lines if any(line.strip() for line in tail.lines) else () for tail in (errors, output)
    )
    pod.error_at = errors.error_at or output.error_at
    if pod.stderr and pod.stdout:
        pod.output = merged(errors, output)


def add_connections(observation: Observation, status: Status, pods: Iterable[PodState]) -> None:
    """Add who listens on the master's port, and which ranks are connected to it.

    The kernel searches its whole table of connections for this, which takes milliseconds: call it only when it matters.
    """
    port = status.resources.get(MASTER_PORT, "")
    sockets = connections.sockets_of(int(port)) if port.isdigit() else None
    if sockets is None:
        return
    states = {pod.name: pod for pod in pods}
    observation.master_port = int(port)
    observation.master_listens = bool(sockets.listening)
    for pod in observation.pods:
        if pod.rank is not None and pod.running and pod.pod in states:
            pids = _pids(states[pod.pod].containers)
            pod.connected = connections.any_has(pids, sockets.connected | sockets.listening)


def _pids(containers: Iterable[ContainerState]) -> list[int]:
    return [each.pid for each in containers if each.role != "init" and each.pid is not None]
