"""The watch for hangs while a job of a cluster is followed: it warns once, and acts as the Job's `on-hang` annotation says.

Used by `ClusterFollower`; the rights are those of the user who follows. Every few seconds it reads the report of one rank,
and those of all ranks only while that one stands still; then again when the ranks have stood still for so long that they
count as hung, so that a hang is reported soon after. Nothing here waits: requests run on the connection's thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from vcjob.admission import defaults
from vcjob.cluster.client.jobs import JobKey
from vcjob.cluster.client.rank_states import read_rank_states
from vcjob.diagnosis.collect import newest_attempts, observe
from vcjob.diagnosis.diagnose import HANGS
from vcjob.diagnosis.finding import Finding
from vcjob.diagnosis.hang_settings import hang_seconds
from vcjob.diagnosis.observation import Observation, RankState
from vcjob.diagnosis.rules.collectives.waits import pending_calls
from vcjob.diagnosis.rules.rendezvous import in_store
from vcjob.errors import VcjobError
from vcjob.lifecycle.status import Phase, Status
from vcjob.report.podstate import PodState
from vcjob.sdk.cluster.connection import ClusterConnection
from vcjob.sdk.cluster.hangs import NO_REPORTS, Hangs, find_hangs, missing_recorder
from vcjob.sdk.handle import ACTIONS
from vcjob.spec.job import Job
from vcjob.wellknown.annotations import ON_HANG

#: The verb for each value of the annotation; `fail` ends the job, because only its controller can fail it.
_VERBS = {"restart": "restart", "fail": "stop"}
#: Clocks differ, and a rank counts as idle a few seconds after it has stopped.
_LATER = 1.0
#: All ranks are not read more often than after this part of `hang_after`.
_SHORTEST = 1 / 8


class _Reading(NamedTuple):
    """What was found, and in how many seconds one more rank has stood still for so long that it may hang."""

    found: Hangs
    again_in: float | None = None


class HangWatcher:
    """What is known about hangs of one followed job. `poll` is called with every new view of the job.

    The follower and the handle use it. It reads the ranks on the event loop of the connection.
    """

    def __init__(self, connection: ClusterConnection, key: JobKey, note: Callable[[str], None]) -> None:
        self._connection = connection
        self._key = key
        self._note = note
        self._seconds = hang_seconds(os.environ)
        self._due = time.monotonic() + (self._seconds or 0.0)
        self._reading: Future[_Reading] | None = None
        self._acting: Future[JobKey] | None = None
        self._said: set[object] = set()
        self._version = -1

    def poll(self, document: dict[str, Any], status: Status, pods: Sequence[PodState]) -> None:
        """Take in what was read, and read again if it is due. Never waits and never fails."""
        if self._seconds is None or status.phase is not Phase.RUNNING:
            self._reading = None
            return
        if self._reading is not None:
            if self._reading.done():
                reading, self._reading = self._reading.result(), None
                if reading.again_in is not None:
                    self._due = min(self._due, time.monotonic() + reading.again_in)
                self._take(reading.found, document, status)
        elif time.monotonic() >= self._due:
            self._due = time.monotonic() + self._seconds / 2
            self._start(Job(defaults.apply(document)), status, pods)

    def _start(self, job: Job, status: Status, pods: Sequence[PodState]) -> None:
        missing = missing_recorder(job)
        if missing and job.metadata.annotations.get(ON_HANG) in _VERBS:
            self._say_once(missing)
        running = [pod for pod in newest_attempts(pods) if pod.rank is not None and not pod.finished]
        if missing == "" and running:
            observation = observe("cluster", job, status, pods, time.time())
            running.sort(key=lambda pod: pod.rank or 0)
            self._reading = self._connection.loop.start(self._read(observation, running))

    async def _read(self, observation: Observation, pods: Sequence[PodState]) -> _Reading:
        jobs, namespace = self._connection.jobs, self._key.namespace
        try:
            first = await read_rank_states(jobs, pods[:1], namespace)
        except VcjobError as error:
            return _Reading(Hangs([], f"hangs cannot be detected: {error.message}"))
        if first.states and not any(
            _stands_still(each, observation.now, self._seconds) for each in first.states
        ):
            return _Reading(Hangs([]))
        found = await find_hangs(jobs, observation, pods, namespace)
        return _Reading(found, _again_in(observation.rank_states, observation.now, self._seconds or 0.0))

    def _take(self, found: Hangs, document: dict[str, Any], status: Status) -> None:
        if found.problem and found.problem != NO_REPORTS:
            self._say_once(found.problem)
        for finding in found.findings:
            if finding.cause in HANGS:
                self._act(finding, document, status)
                return

    def _act(self, finding: Finding, document: dict[str, Any], status: Status) -> None:
        action = (document["metadata"].get("annotations") or {}).get(ON_HANG, "")
        verb = _VERBS.get(action)
        key = (status.version, finding.cause, finding.ranks.first)
        if key not in self._said:
            self._said.add(key)
            self._note(finding.message + (f"; on-hang: {action}" if verb else ""))
        if self._acting is not None and self._acting.done():
            acting, self._acting = self._acting, None
            if (error := acting.exception()) is not None:
                self._say_once(f"the hung job cannot be changed: {error}")
        if verb is not None and self._version != status.version:
            self._version = status.version  # each run of the job once
            self._acting = self._connection.loop.start(self._connection.jobs.send(self._key, ACTIONS[verb]))

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._note(sentence)


def _stands_still(state: RankState, now: float, seconds: float | None) -> bool:
    """Whether the rank may wait for another, or be the one for which the others wait."""
    if state.idle_since is not None or state.looping_since is not None or in_store(state):
        return True
    return any(not call.done and now - call.issued_at >= (seconds or 0.0) / 2 for call in state.collectives)


def _again_in(states: Sequence[RankState], now: float, seconds: float) -> float | None:
    """In how many seconds the next of these ranks has waited or done nothing for `seconds`."""
    left = [seconds - (now - since) for state in states for since in _still_since(state)]
    soonest = min((each for each in left if each > 0), default=None)
    return None if soonest is None else max(soonest + _LATER, seconds * _SHORTEST)


def _still_since(state: RankState) -> Iterator[float]:
    moments = [state.idle_since, state.looping_since, state.call_since]
    moments += [call.issued_at for call in pending_calls(state).values()]
    moments += [state.stack_since] if in_store(state) else []
    return (each for each in moments if each is not None)
